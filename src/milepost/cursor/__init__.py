"""The pure state machine of one subscription's progress. Begin with `cursor.py`.

cursor        the cursor: every transition of ready, inflight and acked
delays        the indexes that are delayed, and until when
facts         the facts that must be durable before a change is answered, and their bytes
group         the cursor of a broadcast group: the slowest member decides
inflight      which consumer has which indexes
outcomes      what the methods of a cursor return
redeliveries  how often each index was redelivered
snapshot      a cursor as bytes, for checkpoints
state         what of a cursor outlives a restart, as plain values
strip         how many indexes of each column of a range are in which state
"""
