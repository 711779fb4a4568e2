"""Writing: rows to topics, once or at least once.

batch_transactions  transactions of a write: tasks open them, the driver ends them
keyed               exactly once by a unique key: the bucket and the number of each row
publish             publishes rows from a task: batches, receipts, sequence ids
sink                the batch and streaming writers that Spark calls
target_topic        checks a topic before it is written
"""
