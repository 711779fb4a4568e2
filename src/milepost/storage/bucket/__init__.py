"""Storage on a bucket: an object store has everything durable, the local directory is a cache.

address          the address of a bucket, and what is wrong with one
board            the board: where each broker says that it is there
cache            the local directory: ledgers are brought from the bucket when they are first read
catalog_changes  the catalog, which notes its changes for the journal
chain            the chain of groups: claim, seal, read, extend
check            tries out whether a store keeps its conditions
committer        sends groups of records, several at a time, and answers them in order
engine           the store on a bucket: what the broker awaits
folder           a bucket in a folder of this machine
image            the image: the catalog at a checkpoint, and where the ledgers' bytes lie
journal          the journal whose groups go to the bucket
manifest         the manifest: who owns the journal, and where a start begins
objects          what is asked of a bucket, and how a lost answer is settled
start            the start: claim, seal, make the local directory, recover
stores           buckets by their address
upkeep/          what lies in a bucket that nothing needs, and what is missing
watched          a bucket whose latencies, errors and last write are known
"""
