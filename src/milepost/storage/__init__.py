"""Storage: one journal, many ledgers, a catalog; everything that survives being killed.

catalog/     what exists, in one SQLite database
checkpoint   fold the journal into ledgers and catalog, so that recovery has little to replay
descriptors  some are kept ready for the storage, whatever connections take
engine       a store that runs for real, with the threads that may block
files        every byte Milepost stores or loads passes through here
header       what it is, which version, whose it is
journal/     every durable fact first goes here, one sync for all that waited
ledgers/     a topic's entries in files, found by index, time and position
lock         one process at a time, released by the kernel when it dies
recovery     from what a crash left to the state that was promised
store        one data directory
"""
