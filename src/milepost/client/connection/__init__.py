"""Connections of the client: where the broker is, who the client is, and how it comes back.

auth         authentication of the client: token, basic, TLS certificate
backoff      how long to wait before the next attempt to connect
connection   one socket to a broker: requests, their answers, frames to producers and consumers
context      what all parts of one client share: lookup, clock, timeouts, and the check for forks
endpoint     the addresses, TLS and credentials of a broker, as one checked value for every tool
link         connects a producer or consumer to its broker, and connects it again
lookup       asks which broker serves a topic, how many partitions it has, which topics there are
loop_thread  an event loop on a background thread, and calls from other threads
poller       repeats a task, such as the search for new partitions, until it is stopped
pool         the connections of a client, one to each broker
refusals     a broker's error codes to exceptions
service_url  parses service URLs: hosts, ports, TLS
tls          the TLS context, from the official client's options
"""
