"""Makes docs/wire.md from the docstrings of the handlers.

python -m milepost.broker.connection.handlers.reference > docs/wire.md
"""

from __future__ import annotations

import sys
import textwrap

from milepost.broker.auth.operations import Operation
from milepost.broker.connection.handlers import HANDLERS
from milepost.wire.commands import FROM_BROKER, FROM_CLIENT, Kind, kind_name

# Commands that are too hot for a handler, and those that the protocol object answers by itself.
ELSEWHERE: dict[int, tuple[str, str]] = {
    Kind.SEND: (
        "broker/topic/topic.py",
        "Publishes an entry: a message, a batch or a chunk. The checksum is verified where there is one; "
        "the entry is stored as sent, with the index of its last message and a timestamp beside it. The "
        "number of messages comes from the metadata, not from `num_messages`. Receipts leave in order, when "
        "the entry is on disk. `highest_sequence_id` is honoured and echoed; with deduplication a repeated "
        "sequence id is answered with id -1:-1 and stored once, batches and chunked messages included. "
        "A chunk that continues a message and is stored already is answered with its id, also without "
        "deduplication; no chunk is delivered before its message is whole (PIP-107). "
        "Entries with a `marker_type` are stored and indexed, and never dispatched. Compression and "
        "encryption are passed through. A wrong checksum is `ChecksumError` for that message alone; metadata "
        "that no client could read, or that contradicts itself or its payload, is `NotAllowedError`, and so "
        "is, with deduplication, an entry whose metadata names another producer.",
    ),
    Kind.ACK: (
        "broker/subscription/subscription.py",
        "Acknowledges messages, individually or cumulatively, whole entries or single messages of a batch "
        "by `ack_set` (PIP-54): sets are merged by AND, bits beyond the batch are ignored, a set is on disk "
        "before ACK_RESPONSE leaves. An ack of a chunked message's last chunk covers all its chunks, one of "
        "its other chunks nothing; a cumulative one leaves chunked messages that end later. "
        "Acks of messages that were delivered before a seek and not again since change nothing and "
        "are answered. "
        "A cumulative ack on Shared or Key_Shared is answered and ignored, as upstream does; an ack for a "
        "consumer that is not there is dropped. An id that is not there is an error for the command, whose "
        "other ids are acked all the same. In a transaction it is `NotAllowedError`; sets that come to more "
        "than 250,000 ranges are `TooManyRequests`. One of very many ids is obeyed in parts, others having "
        "their turn between them, and answered once.",
    ),
    Kind.FLOW: (
        "broker/subscription/subscription.py",
        "Gives permits, counted in messages. It never moves a cursor (PIP-194, stage 1). Permits are debited "
        "by the messages that the client will really see (PIP-54). One permit is enough for a batch or a "
        "chunked message to begin; it goes out whole and takes one for each message or chunk, so that the "
        "sum may be below zero. The same holds for limits of unacked messages and for dispatch rates. "
        "Zero and unknown consumers are ignored; the sum is capped at 2^31 - 1.",
    ),
    Kind.PING: (
        "wire/protocol.py",
        "Answered with PONG at once, ahead of everything that waits to be sent.",
    ),
    Kind.PONG: ("wire/protocol.py", "Shows that the client is alive, as any command does."),
}

INTRODUCTION = """\
# The wire

Milepost speaks Apache Pulsar's binary protocol, version 21 and below. This page is made from the handlers
(`python -m milepost.broker.connection.handlers.reference`). What is not listed is refused: an unknown
command closes its connection with a counted reason, an unknown enum value is answered with
`UnsupportedVersionError`.

`CommandSeek.consumer_epoch` (field 5) is PIP-194's and is not known upstream; it is always optional.

## Commands from clients

"""


def page() -> str:
    parts = [INTRODUCTION]
    for kind in sorted(FROM_CLIENT):
        where, text = _entry(kind)
        if kind in HANDLERS and HANDLERS[kind].needs is not Operation.OPEN:
            text += f" Needs {HANDLERS[kind].needs.meaning}."
        source = f" (`{where}`)" if where else ""
        parts.append(f"### {kind_name(kind)}{source}\n\n{_paragraph(text)}\n\n")
    sent = ", ".join(kind_name(kind) for kind in sorted(FROM_BROKER))
    parts.append("## Commands to clients\n\n")
    parts.append(_paragraph(f"{sent}.") + "\n\n")
    parts.append(
        _paragraph(
            "Some clients drop their connection on a command they do not list; those are not sent to them "
            "(`wire/peer.py`)."
        )
        + "\n"
    )
    return "".join(parts)


def _entry(kind: int) -> tuple[str, str]:
    if kind in HANDLERS:
        handler = HANDLERS[kind]
        module = handler.handle.__module__.removeprefix("milepost.").replace(".", "/")
        return f"{module}.py", handler.doc
    return ELSEWHERE[kind]


def _paragraph(text: str) -> str:
    return textwrap.fill(
        " ".join(text.split()), 118, break_long_words=False, break_on_hyphens=False
    )


if __name__ == "__main__":
    sys.stdout.write(page())
