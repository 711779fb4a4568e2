"""The pure state machine of one subscription's progress. Begin with `cursor.py`.

cursor        the progress of one subscription on one partition
delays        the indexes that are not due yet, and when each will be
facts         what must be on disk before a cursor's change is answered, as values and as bytes
group         every member gets every message, and the group is where its slowest member is
inflight      which indexes are with which consumer
outcomes      what the verbs of a cursor say: plain values, for the broker's accounting and its journal
redeliveries  how often each index came back without a verdict
snapshot      a cursor as bytes, so that a restart need not replay its whole life
state         what of a cursor outlives it, as plain values between the cursor and its snapshot
"""
