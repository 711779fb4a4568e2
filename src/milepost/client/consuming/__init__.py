"""Consuming: consumers of one topic, of many, readers, table views, and how callers wait for messages.

consumer           `Consumer` of one topic or partition: what users call
consumers          creates the consumers of a subscription: of a topic, its partitions, a list, a pattern
dead_letters       dead letter and retry topics
multi_consumer     `Consumer` of many topics or partitions
patterns           finds the topics that match a pattern, now and later
reader             `Reader`: reads from a position, without a durable subscription
receiving          `receive` and `batch_receive`, for consumers of one topic and of many
subscribe_command  builds the SUBSCRIBE command from a consumer's options
subscribe_options  the options of `Client.subscribe` and `create_reader`, checked once
subscription       the wire side of one consumer: subscribing, deliveries, permits, seeks
table_view         `TableView`: the newest value of every key of a topic
topic_watcher      hears from the broker which topics come or go (PIP-145)
waiters            the queue of callers that wait for a message
"""
