"""Messages of a topic: from ids to indexes and back, chunks, compaction, backlogs. Nothing is delivered here.

backlog_scan     analyses the backlog of a subscription (upstream's analyze-backlog)
backlog_walk     reads through a backlog entry by entry, beside live traffic
browse           reads single messages for people, from an index on, with a filter
chunk_search     finds the chunks of a message in the log when memory has forgotten them
chunked          which chunks of a chunked message are stored, missing or orphaned, at publish
compacted        what readers of a compacted topic get: the last message of each key
compactor        finds the last message of each key, for compaction
entry_view       unpacks an entry for people: payload, properties, metadata
ids_to_indexes   what the message ids in acks, seeks and redeliveries mean, as indexes
lookup_by_index  looks messages up by index, id or count, without consuming them (PIP-415)
message_view     unpacks entries into single messages for people
send_verdict     the verdict on a send: new, duplicate, or unknown
"""
