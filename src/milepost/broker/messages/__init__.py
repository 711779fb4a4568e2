"""Messages of a topic: from ids to indexes and back, chunks, compaction, backlogs. Nothing is delivered here.

addresses     what the ids in commands mean as indexes
backlog_scan  what upstream calls its analysis
backlog_walk  a walk through a backlog, entry by entry, beside live traffic
chunk_search  finds chunks in the log, for messages that are not remembered in memory
chunked       which chunk comes next, and what ties the chunks of a message together
compacted     of each key only the last message
compactor     which message of each key is the last
entry_view    its payload unpacked, and everything else that it says as named texts
inspection    what lies where, for those who look and do not consume
"""
