"""Handlers: one file a command family. The list of files is the protocol coverage.

Each handler says which command it answers and, in its docstring, which fields and proposals it honours:
docs/wire.md is generated from them. A handler either does its work at once or returns a coroutine; an
error of ours that it raises becomes the refusal that its command's clients understand.

close         CLOSE_PRODUCER and CLOSE_CONSUMER, from the client
connect       the handshake
id_by_index   milepost's own command, PIP-415 without HTTP
last_id       what `has_message_available` compares
lookup        where a topic is served, and in how many parts
produce       the right to publish
redeliver     negative acks and ack timeouts
reference     the page about the protocol, made from the handlers' own words
registry      which function answers which command, and what a client needs the right to do for it
schema        GET_SCHEMA and GET_OR_CREATE_SCHEMA, and what PRODUCER and SUBSCRIBE say of schemas
seek          a client moves its cursor
stats         a consumer's numbers, as the broker counts them
subscribe     a consumer joins a subscription, which is made if need be
topics        what a pattern consumer polls
transactions  NEW_TXN, ADD_PARTITION_TO_TXN, ADD_SUBSCRIPTION_TO_TXN, END_TXN and
unsubscribe   a subscription is deleted with its position
watch         a pattern consumer is told instead of asking (PIP-145)
"""

from milepost.broker.connection.handlers import (  # noqa: F401  # importing them registers them
    close,
    connect,
    id_by_index,
    last_id,
    lookup,
    produce,
    redeliver,
    schema,
    seek,
    stats,
    subscribe,
    topics,
    transactions,
    unsubscribe,
    watch,
)
from milepost.broker.connection.handlers.registry import HANDLERS, Handler

__all__ = ["HANDLERS", "Handler"]
