"""Consuming: consumers of one topic, of many, readers, table views, and how callers wait for messages.

consumer           one consumer of one topic that is not partitioned (or of one partition): what its
consumers          which consumers a subscription needs: one, one a partition, one a topic, or as many
dead_letters       messages that came too often, or are to come again later, go to topics of their own
multi_consumer     the partitions of a topic, a list of topics, or all that match a pattern
patterns           all of a namespace whose names match, now and later
reader             reads a topic from a place that its user chose, and leaves no trace on the broker
receiving          how callers wait for messages, whether they come from one topic or from many
subscribe_command  the SUBSCRIBE command, from a consumer's options
subscription       it stays subscribed, takes deliveries, counts permits, seeks
table_view         the newest value of every key of a topic, kept up to date
topic_watcher      the broker says when some come or go (PIP-145)
waiters            callers that wait for a message, each woken in its turn, none forgotten when one
"""
