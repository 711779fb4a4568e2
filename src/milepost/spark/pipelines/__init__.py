"""Pipelines between topics and lakes: each one file, importable, and a command of `milepost pipeline`.

archive     a topic into a lake, exactly once
comparison  two ascending runs of messages, batch beside batch, and what differs by index
lake/       parquet files, manifests and Delta tables that an archive writes, and how they are read
names       which partition and range, and no other's
progress    from a position history to tables, by Spark
replay      a lake into a topic, exactly once, each partition in its order
report/     recorded positions as series, tables and pictures
tasks       python functions over a list of things, run by Spark's executors
verify      do a lake and a topic hold the same messages?
"""
