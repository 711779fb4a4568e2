"""Pipelines between topics and lakes: each one file, importable, and a command of `milepost pipeline`.

archive     `archive`: a topic into a lake, exactly once
comparison  compares two runs of messages by index
lake/       lakes: Parquet files with manifests, or Delta tables; written, read and merged
names       the names of data files
progress    `progress`: a position history to tables
replay      `replay`: a lake into a topic, exactly once
report/     records positions, and makes tables and pictures of them
tasks       runs Python functions on Spark's executors
verify      `verify`: compares a lake with a topic
"""
