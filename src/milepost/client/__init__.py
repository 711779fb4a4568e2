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
"""
