"""Upkeep of a bucket: what lies there that nothing needs, and what is missing.

audit  reads a bucket or one of its shards, and finds what is missing, foreign or left over
"""
