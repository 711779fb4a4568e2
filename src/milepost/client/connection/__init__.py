"""Connections of the client: where the broker is, who the client is, and how it comes back.

auth         token, basic, TLS certificate
backoff      how long to wait before the next attempt
connection   requests and their answers, frames to producers and consumers
context      what every part of one client shares: its lookup, its clock, its numbers and its limits
endpoint     where a broker is, how its TLS is trusted, and who asks
link         how one producer or consumer gets to its broker, and gets back to it
lookup       which broker serves a topic, in how many partitions, and which topics a namespace has
loop_thread  an event loop on a thread of its own, and how other threads have work done on it
poller       looking for new partitions and topics
pool         connections, one to each broker, shared by all producers and consumers of a client
refusals     a broker's error codes as the exceptions of `milepost.errors`
service_url  where the brokers are, and whether TLS is spoken there
tls          TLS as the official client's options put it
"""
