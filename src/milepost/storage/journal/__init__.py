"""The journal: every durable fact first goes here, one sync for all that waited.

committer    writes and syncs groups of records, on the loop or on a thread of its own
journal      the journal: one append-only sequence of every durable fact, synced in groups
loop_commit  decides whether the loop may sync a group itself while the disk is quick
queue        the queue of records: numbers and groups them, tells how they went
records      the bytes of one record, and how a torn tail is told from damage
runway       keeps zeros ahead of the end of the journal, so that a sync is cheap
"""
