"""Storage: one journal, many ledgers, a catalog; everything that survives being killed.

The life of the data, read off the folder:

    journal.py, records.py     every durable fact first goes here, one sync for all that waited
    entry.py, header.py        the bytes of an entry and of a file's beginning
    ledger.py, mileposts.py    one file of entries; index → entry, time → entry by bisection
    rebuild.py                 mileposts made again from their ledger
    log.py                     a topic's ledgers; owner of the next index
    catalog.py, sqlite_catalog.py   what exists
    checkpoint.py, recovery.py what bounds a restart; what a restart does
    tail.py                    what was just written, still in memory
    store.py, engine.py        one data directory: as plain steps; with its threads
    files.py, lock.py          the file-system seam; one process a directory
"""
