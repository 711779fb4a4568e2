"""Requests and their answers, over a connection without a socket."""

from __future__ import annotations

import itertools
from typing import Any

from milepost.positions import unsigned64
from milepost.testing.peer import Loopback
from milepost.wire import pulsar_pb2 as pb
from stage.frames import message
from stage.stage import TOPIC, Stage

EXCLUSIVE = pb.CommandSubscribe.Exclusive
SHARED = pb.CommandSubscribe.Shared
FAILOVER = pb.CommandSubscribe.Failover
KEY_SHARED = pb.CommandSubscribe.Key_Shared

_request_ids = itertools.count(100)


def ask(client: Loopback, command: Any) -> int:
    """Say a request under an id of its own, and do not wait."""
    command.request_id = next(_request_ids)
    client.say(command)
    return int(command.request_id)


def request(stage: Stage, client: Loopback, command: Any) -> Any:
    """Say a request and take its answer, which must have come; what else came stays."""
    return answer(client, ask(client, command), stage)


def answer(client: Loopback, request_id: int, stage: Stage | None = None) -> Any:
    """Take the answer to a request; None while there is none."""
    if stage is not None:
        stage.turn()
    for heard in client._heard:
        if getattr(heard, "request_id", None) == request_id:
            client._heard.remove(heard)
            return heard
    assert stage is None, f"no answer to request {request_id}, but {client._heard}"
    return None


def error_of(answer: Any) -> str:
    """The name of the error in a reply, in whichever field its kind has it; empty for success."""
    for field in ("error", "error_code"):
        if hasattr(answer, field) and answer.HasField(field):
            return str(pb.ServerError.Name(getattr(answer, field)))
    return ""


def text_of(answer: Any) -> str:
    return str(getattr(answer, "message", "") or getattr(answer, "error_message", ""))


def producer_command(producer_id: int = 0, name: str = "p", **fields: Any) -> pb.CommandProducer:
    fields.setdefault("topic", TOPIC)
    return pb.CommandProducer(producer_id=producer_id, producer_name=name, request_id=0, **fields)


def subscribe_command(
    subscription: str = "s", sub_type: Any = EXCLUSIVE, consumer_id: int = 0, **fields: Any
) -> pb.CommandSubscribe:
    fields.setdefault("topic", TOPIC)
    return pb.CommandSubscribe(
        subscription=subscription, subType=sub_type, consumer_id=consumer_id, request_id=0, **fields
    )


def produce(
    stage: Stage, client: Loopback, producer_id: int = 0, name: str = "p", **fields: Any
) -> Any:
    return request(stage, client, producer_command(producer_id, name, **fields))


def subscribe(
    stage: Stage,
    client: Loopback,
    subscription: str = "s",
    sub_type: Any = EXCLUSIVE,
    consumer_id: int = 0,
    *,
    permits: int = 0,
    **fields: Any,
) -> Any:
    reply = request(stage, client, subscribe_command(subscription, sub_type, consumer_id, **fields))
    if permits:
        flow(stage, client, permits, consumer_id)
    return reply


def flow(stage: Stage, client: Loopback, permits: int, consumer_id: int = 0) -> None:
    client.say(pb.CommandFlow(consumer_id=consumer_id, messagePermits=permits))
    stage.turn()


def wire_id(ledger_id: int, entry_id: int, **fields: Any) -> pb.MessageIdData:
    return pb.MessageIdData(ledgerId=unsigned64(ledger_id), entryId=unsigned64(entry_id), **fields)


def ack_command(
    *ids: pb.MessageIdData, cumulative: bool = False, consumer_id: int = 0, **fields: Any
) -> pb.CommandAck:
    return pb.CommandAck(
        consumer_id=consumer_id,
        ack_type=pb.CommandAck.Cumulative if cumulative else pb.CommandAck.Individual,
        message_id=ids,
        **fields,
    )


def seek_command(target: pb.MessageIdData | None = None, **fields: Any) -> pb.CommandSeek:
    fields.setdefault("consumer_id", 0)
    return pb.CommandSeek(request_id=0, message_id=target, **fields)


def opened(stage: Stage) -> Loopback:
    """A client that produces and consumes, and got three messages: 1:0, 1:1 and 1:2."""
    client = stage.client()
    produce(stage, client)
    subscribe(stage, client, permits=10)
    client.say(*[message(number) for number in range(3)])
    stage.turn()
    client.take()
    return client


def command_class(kind: int) -> Any:
    """The protobuf class of a command; its number is that of its field in BaseCommand."""
    return getattr(pb, pb.BaseCommand.DESCRIPTOR.fields_by_number[kind].message_type.name)


def minimal(kind: int) -> Any:
    """A command with every field that it must have, about things that exist."""
    command = command_class(kind)()
    values = {"topic": TOPIC, "namespace": "public/default", "subscription": "s"}
    for field in command.DESCRIPTOR.fields:
        if field.name in values and field.message_type is None:
            setattr(command, field.name, values[field.name])
        elif field.is_required and field.message_type is not None:
            # A schema: its own fields are filled in by their kind.
            for inner in field.message_type.fields:
                if inner.is_required:
                    setattr(getattr(command, field.name), inner.name, _value(inner))
        elif field.is_required:
            setattr(command, field.name, _value(field))
    return command


def _value(field: Any) -> Any:
    if field.enum_type is not None:
        return field.enum_type.values[0].number
    if field.type == field.TYPE_BYTES:
        return b""
    return "x" if field.type == field.TYPE_STRING else 77
