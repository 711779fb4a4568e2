"""The journal: every durable fact first goes here, one sync for all that waited.

committer    performs the journal's commits, on the loop or on a thread of its own
journal      one append-only record of every durable fact of the broker, group-committed
loop_commit  whether the loop may make a group durable itself, instead of asking the journal's thread
records      the bytes of one durable fact, and how to tell a torn tail from damage
runway       zeros that lie ready ahead of the end of a journal file
"""
