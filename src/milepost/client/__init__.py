"""The client of Milepost and of Apache Pulsar: asyncio source, and a synchronous face derived from it.

It agrees with a broker through `milepost.wire` alone, as strangers do. Nothing here knows a broker's
inside. Names and defaults are those of the official `pulsar` package.

client          the asyncio `Client`: creates producers, consumers, readers, table views, transactions
client_options  the options of a client, in the official package's names and order
connection/     service URLs, lookup, sockets, TLS, credentials, reconnecting
consuming/      consumers of one topic and of many, readers, table views, dead letters
loggers         the official package's loggers, by which users set how much the client logs
messages/       received messages, acks, negative acks, encryption, seeks
option_checks   checks the numbers that users give as options
policies        the enumerations and policy classes of the official package
producing/      producers, batches, chunks, compression, routing, receipts
results         the result codes that callbacks get, in the official package's numbers
schemas         the schemas of topics as the client sends and looks them up
signatures      builds the signatures of methods from the options, for both clients
statistics      the counters of a producer or consumer
sync            the synchronous `Client`: the asyncio one on a background thread
transactions/   transactions and their coordinators
"""
