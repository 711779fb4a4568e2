"""Monitoring: numbers and verdicts of one moment. It reads, and changes nothing.

broker_watch    what a person sees first of a broker: what is in trouble, how much, how fast
connection_log  logs each connection, producer and consumer that comes or goes
overview        the progress of many subscriptions, trouble first
progress        the progress of one subscription: all its numbers at one moment, with a verdict
self_check      the health check: publishes a message, has it delivered and acked; and free disk space
stats           the numbers of the stats that follow from a cursor: backlog, its size and age, positions
strip_view      the strip of a subscription: its indexes in columns, and single messages with holders
topic_walk      takes a step for each of many topics, in slices, and reads what they lack together
verdicts        judges a subscription: caught up, slow, starved, stalled, and why
"""
