"""Handlers: one file a command family. The list of files is the protocol coverage.

Each handler says which command it answers and, in its docstring, which fields and proposals it honours:
docs/wire.md is generated from them. A handler either does its work at once or returns a coroutine; an
error of ours that it raises becomes the refusal that its command's clients understand.
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
