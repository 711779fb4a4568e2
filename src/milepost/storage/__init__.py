"""Storage: one journal, many ledgers, a catalog; everything that survives being killed.

bucket/      storage on a bucket: an object store has everything, the local directory is a cache
catalog/     the catalog: which topics, ledgers and states exist, in one SQLite database
checkpoint   the checkpoint: moves what the journal holds into ledgers and catalog
cluster/     several brokers on one bucket: who is there, who has which shard, what all share
descriptors  keeps file descriptors free for the storage, however many connections there are
documents    checks the fields of documents that were read from a bucket
engine       the store on real threads: what the broker awaits
files        the file system: every byte that is stored or loaded passes through here
header       the first 64 bytes of every file: kind, version, owner
interface    the interface: what a log, a store, a catalog and an engine offer, and promise
journal/     the journal: every durable fact goes here first, one sync for all that wait
ledgers/     the ledgers of a topic: its entries in files, found by index, time and position
lock         the lock of a data directory: one process at a time
recovery     the start after a crash: replays the journal, cuts a torn tail
registry     the registry of several workers: one SQLite database for what all of them share
shards       the directory of several shards: how many there are, and where each lies
store        one data directory: its journal, logs, states and checkpoints
"""
