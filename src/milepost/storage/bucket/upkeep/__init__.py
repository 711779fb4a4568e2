"""Upkeep of a bucket: what lies there that nothing needs, and what is missing.

audit      reads a bucket or one of its shards, and finds what is missing, foreign or left over
collector  deletes objects that no image names any more, after a grace
lost       what a start refuses: objects that are gone although others need them
merge      which packs are to be merged, and where the bytes of ledgers lie afterwards
"""
