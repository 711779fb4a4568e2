"""Reading: from an index range to Arrow batches, over one connection, by compiled loops.

blocks          entries in one piece of bytes, with arrays that say where each lies and what its
chunks          each whole, at the place of its last chunk, whatever the slice cuts through
compiled_bytes  what the loops of scan.py are made of
decode          entries of a partition to Arrow batches, by the compiled reader where it can be had
deliveries      MESSAGE frames as brokers write them, read by a compiled loop
entries         what an entry holds, message by message, and why it cannot be read
fetch           from an index range to Arrow batches, in one tight loop over one connection
flat_avro       values whose fields are plain, from bytes to an Arrow struct at once
joined          one table of a topic's archived past and its live tail, joined at an exact index
link            the client's connection to a broker, served by the thread that asks, for tasks without
places          which entry an index lies in, which index an id, a time or a subscription means
pushdown        filters that Spark offers, as a narrower range and as a mask over what was read
scan            bytes of entries to arrays that Arrow takes as they are
survey          which partitions a query reads, and where each begins and ends now
"""
