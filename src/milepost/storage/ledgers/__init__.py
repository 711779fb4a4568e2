"""Ledgers: a topic's entries in files, found by index, time and position.

entry          the bytes of one entry on disk: a header and what the producer sent
heads          reads what entries say of themselves before their payload
ledger         one ledger: an append-only file of entries, written by checkpoints
log            the log of one topic: appends, reads, rolls and trims its ledgers, and gives out indexes
loss           acknowledged entries that are gone: recorded, and accepted by an operator
mileposts      where each entry of a ledger lies, its last index and its time: found by bisection
not_in_memory  what a step raises when it needs bytes that are on disk only
paging         stops a step that needs bytes from disk, reads them, and takes the step again
rebuild        makes the mileposts of a ledger again when their file is missing or damaged
salvage        what can be told of entries whose record in the journal is damaged
stored_run     consecutive entries, to be read and sent as they are stored
stretch        consecutive entries of one ledger as columns, for code that looks through many
tail           the tail cache: the newest entries in memory, for consumers near the end
"""
