"""The client of Milepost and of Apache Pulsar: asyncio source, and a synchronous face derived from it.

    client.py       Client: makes producers, consumers, readers; owns the connections
    sync.py         the same on a background loop, call by call
    producer.py     one topic's producer; batcher.py, chunker.py: what becomes an entry
    consumer.py     one topic's consumer; inbox.py: what comes; acks.py: what goes back
    partitions.py, patterns.py   many topics as one
    link.py         how a producer or consumer stays connected; backoff.py: how long it waits
    connection.py, pool.py, lookup.py   sockets, which broker, where

It agrees with a broker through `milepost.wire` alone, as strangers do. Nothing here knows a broker's
inside. Names and defaults are those of the official `pulsar` package.

client          connections to brokers, and everything that is made on them
client_options  what a client was asked to be: the official package's options, in its order, and some
connection/     where the broker is, who the client is, and how it comes back
consuming/      consumers of one topic, of many, readers, table views, and how callers wait for messages
loggers         here they set how much the client says to `logging`
messages/       received, acknowledged, asked for again, encrypted, sought
options         what a producer, consumer or reader was asked to be: the official package's options
policies        the enumerations and policies of the official package, by its names
producing/      from a message to batches, chunks and frames, and from receipts to answers
results         the official package's numbers for what became of a call, as its callbacks are given them
schemas         how one is said to a broker, and which one wrote a message
signatures      options as arguments, methods like another, calls that wait
statistics      what a producer or consumer has done so far, in numbers that only grow
sync            the asyncio one on a background loop, call by call
"""
