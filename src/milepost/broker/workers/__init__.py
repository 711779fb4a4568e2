"""Several processes that serve as one broker: which of them has a topic, and what they ask each other.

calls      what a worker answers to the others, and how the broker asks them
gate       lets calls about the own shard in, until it is to go to another broker
hand_over  hands a shard over from the broker that serves it to one that is ready to
link       the connection between workers: one call, one answer
moves      moves shards to a broker that an operator has chosen
placement  which shard has a topic, and where the worker of a shard listens
shared_transactions  transactions with topics of several workers: joined, ended, asked after
transaction_parts  what open transactions have done to topics of all workers
watched_topics  topics of other workers, for clients that watch a namespace here
workers    one worker among others: its place, its link and the registry that all share
"""
