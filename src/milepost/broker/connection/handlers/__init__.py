"""Handlers: one file a command family. The list of files is the protocol coverage.

Each handler says which command it answers and, in its docstring, which fields and proposals it honours:
docs/wire.md is generated from them. A handler either does its work at once or returns a coroutine; an
error of ours that it raises becomes the refusal that its command's clients understand. SEND, ACK and FLOW
and those of transactions come as events of the scanners instead of protobuf commands; everything else about
them is the same.

ack           ACK: a consumer says what it is done with
close         CLOSE_PRODUCER and CLOSE_CONSUMER, from the client
connect       CONNECT and AUTH_RESPONSE: the handshake
flow          FLOW: a consumer gives permits
id_by_index   GET_MESSAGE_ID_BY_INDEX: the lookup by index (PIP-415), a command of Milepost's own
last_id       GET_LAST_MESSAGE_ID: the last message of a topic
lookup        LOOKUP and PARTITIONED_METADATA: which broker serves a topic, and how many partitions it has
produce       PRODUCER: a client asks for the right to publish
redeliver     REDELIVER_UNACKNOWLEDGED_MESSAGES: negative acks and ack timeouts
reference     makes docs/wire.md from the docstrings of the handlers
registry      which function answers which command, and the right that the client needs for it
schema        GET_SCHEMA and GET_OR_CREATE_SCHEMA, and the schemas that PRODUCER and SUBSCRIBE bring
seek          SEEK: a client moves its cursor
send          SEND: a producer publishes
stats         CONSUMER_STATS: the broker's numbers of one consumer
subscribe     SUBSCRIBE: a consumer joins a subscription, which is created if it does not exist
topics        GET_TOPICS_OF_NAMESPACE: the topics that a pattern consumer matches
transactions  NEW_TXN, END_TXN and the other commands of transactions
unsubscribe   UNSUBSCRIBE: a client deletes its subscription
watch         WATCH_TOPIC_LIST and its CLOSE: a pattern consumer is told of new topics (PIP-145)
"""

from milepost.broker.connection.handlers import (  # noqa: F401  # importing them registers them
    ack,
    close,
    connect,
    flow,
    id_by_index,
    last_id,
    lookup,
    produce,
    redeliver,
    schema,
    seek,
    send,
    stats,
    subscribe,
    topics,
    transactions,
    unsubscribe,
    watch,
)
from milepost.broker.connection.handlers.registry import EVENT_HANDLERS, HANDLERS, Handler

__all__ = ["EVENT_HANDLERS", "HANDLERS", "Handler"]
