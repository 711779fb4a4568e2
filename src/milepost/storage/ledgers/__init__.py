"""Ledgers: a topic's entries in files, found by index, time and position.

entry      one header and the producer's bytes, alike in journal and ledger
heads      what entries say of themselves before their payload begins
ledger     one append-only file of a topic's entries, written behind the journal
log        one topic's ordered ledgers
loss       acknowledged entries of one ledger that are gone from its file
mileposts  where each entry lies, which index it ends with, when it came
paging     a step that needs bytes from the disk stops, they are brought, and the step is taken again
rebuild    mileposts made again from their ledger, when their own file is missing or not intact
stretch    consecutive entries of one ledger as columns, for code that looks through many of them
tail       bytes that are stored but still in memory, for consumers just behind the end
"""
