"""Reading: from an index range to Arrow batches, over one connection, by compiled loops.

blocks          many entries in one piece of bytes, with arrays of where each lies
chunks          puts the chunked messages of a slice together
compiled_bytes  compiled functions that read numbers and text from bytes
decode          entries to Arrow batches: by the compiled reader, or the plain one
deliveries      reads MESSAGE frames by a compiled loop
entries         the plain reader: entries to rows, one message at a time
fetch           reads a slice: an index range to Arrow batches, over one connection
flat_avro       decodes flat Avro records to Arrow by a compiled loop
joined          joins a topic's archive and its live tail into one table
link            the client's connection, served by the thread that asks
places          asks the broker for indexes: of an id, a time, a subscription, the end
pushdown        the filters that Spark offers: a narrower range, and a mask
scan            the compiled reader: entries to arrays (Numba)
survey          finds the partitions of a query, and where each begins and ends now
"""
