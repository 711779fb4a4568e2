"""Command numbers, and parsing and encoding of commands that are not hot.

Reading is strict where a wrong guess would do harm, and blind to what only a newer peer knows:

- bytes that are no protobuf, a required field missing, text that is not UTF-8: refused;
- an enum value we do not know is never taken for the default that protobuf puts in its place;
- unknown fields are skipped (forward compatible);
- a message id nests once (PIP-107: the first chunk's id inside), never deeper.

    >>> encode_command(pb.CommandFlow(consumer_id=1, messagePermits=1000)).hex()
    '080b5a05080110e807'
    >>> decode_command(bytes.fromhex("080b5a05080110e807")).kind == Kind.FLOW
    True
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum, auto
from typing import Final

from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import DecodeError, Message
from google.protobuf.unknown_fields import UnknownFieldSet

from milepost.errors import ProtocolError
from milepost.wire import pulsar_pb2 as pb
from milepost.wire.events import Command
from milepost.wire.reasons import Reason
from milepost.wire.scanners.varint import encode_varint

Kind = pb.BaseCommand.Type

# More parts than this (properties, mostly) in one command is more than any client needs. Message ids
# are limited by the frame alone: official clients list all they hold.
REPEATED_MAX: Final = 10_000

# Unknown fields are searched for enum values only up to this many bytes of them.
UNKNOWN_FIELDS_SIZE_MAX: Final = 64 * 1024

# The number of a command is the number of its field in BaseCommand; the field is named at will.
_FIELD_NAMES: Final[dict[int, str]] = {}
_KINDS: Final[dict[str, int]] = {}
# Looking a kind up by its name, or its name by the kind, takes the library half a microsecond.
_KIND_NAMES: Final[dict[int, str]] = {}
_PINGS: Final = frozenset((Kind.PING, Kind.PONG))
# What BaseCommand begins with: the type, then the tag of the command's own field.
_PREFIXES: Final[dict[int, bytes]] = {}
for _field in pb.BaseCommand.DESCRIPTOR.fields:
    if _field.message_type is not None:
        _FIELD_NAMES[_field.number] = _field.name
        _KINDS[_field.message_type.full_name] = _field.number
        _KIND_NAMES[_field.number] = Kind.Name(_field.number)
        _PREFIXES[_field.number] = (
            b"\x08" + encode_varint(_field.number) + encode_varint(_field.number << 3 | 2)
        )
del _field


FROM_CLIENT: Final = frozenset(
    (
        Kind.CONNECT,
        Kind.AUTH_RESPONSE,
        Kind.PING,
        Kind.PONG,
        Kind.PARTITIONED_METADATA,
        Kind.LOOKUP,
        Kind.GET_TOPICS_OF_NAMESPACE,
        Kind.WATCH_TOPIC_LIST,
        Kind.WATCH_TOPIC_LIST_CLOSE,
        Kind.PRODUCER,
        Kind.SEND,
        Kind.CLOSE_PRODUCER,
        Kind.SUBSCRIBE,
        Kind.FLOW,
        Kind.ACK,
        Kind.REDELIVER_UNACKNOWLEDGED_MESSAGES,
        Kind.SEEK,
        Kind.GET_LAST_MESSAGE_ID,
        Kind.CONSUMER_STATS,
        Kind.UNSUBSCRIBE,
        Kind.CLOSE_CONSUMER,
        Kind.GET_SCHEMA,
        Kind.GET_OR_CREATE_SCHEMA,
        Kind.GET_MESSAGE_ID_BY_INDEX,
        Kind.NEW_TXN,
        Kind.ADD_PARTITION_TO_TXN,
        Kind.ADD_SUBSCRIPTION_TO_TXN,
        Kind.END_TXN,
        Kind.TC_CLIENT_CONNECT_REQUEST,
    )
)
"""What a broker hears."""

FROM_BROKER: Final = frozenset(
    (
        Kind.CONNECTED,
        Kind.AUTH_CHALLENGE,
        Kind.PING,
        Kind.PONG,
        Kind.SUCCESS,
        Kind.ERROR,
        Kind.PARTITIONED_METADATA_RESPONSE,
        Kind.LOOKUP_RESPONSE,
        Kind.GET_TOPICS_OF_NAMESPACE_RESPONSE,
        Kind.WATCH_TOPIC_LIST_SUCCESS,
        Kind.WATCH_TOPIC_UPDATE,
        Kind.PRODUCER_SUCCESS,
        Kind.SEND_RECEIPT,
        Kind.SEND_ERROR,
        Kind.CLOSE_PRODUCER,
        Kind.MESSAGE,
        Kind.ACK_RESPONSE,
        Kind.GET_LAST_MESSAGE_ID_RESPONSE,
        Kind.CONSUMER_STATS_RESPONSE,
        Kind.ACTIVE_CONSUMER_CHANGE,
        Kind.REACHED_END_OF_TOPIC,
        Kind.CLOSE_CONSUMER,
        Kind.SEEK,
        Kind.TOPIC_MIGRATED,
        Kind.GET_SCHEMA_RESPONSE,
        Kind.GET_OR_CREATE_SCHEMA_RESPONSE,
        Kind.GET_MESSAGE_ID_BY_INDEX_RESPONSE,
        Kind.NEW_TXN_RESPONSE,
        Kind.ADD_PARTITION_TO_TXN_RESPONSE,
        Kind.ADD_SUBSCRIPTION_TO_TXN_RESPONSE,
        Kind.END_TXN_RESPONSE,
        Kind.TC_CLIENT_CONNECT_RESPONSE,
    )
)
"""What a client hears."""


class UnknownValue(ProtocolError):
    """A whole command with an enum value of the future in it; the handler that can answer refuses it."""

    def __init__(self, command: Command, field_name: str, value: int) -> None:
        super().__init__(
            Reason.UNKNOWN_VALUE, f"{kind_name(command.kind)} with {field_name} {value}"
        )
        self.command = command
        self.field_name = field_name


class TooManyParts(ProtocolError):
    """A whole command with a list that is longer than the broker reads; if it is a request, it is refused."""

    def __init__(self, command: Command, message: str) -> None:
        super().__init__(Reason.BAD_COMMAND, message)
        self.command = command


def kind_of(message: Message) -> int:
    """The number of a command, by its type."""
    return _KINDS[message.DESCRIPTOR.full_name]


def kind_name(kind: int) -> str:
    """`SUBSCRIBE` for 4; the number as text for one that is not known."""
    return _KIND_NAMES.get(kind) or str(kind)


def encode_command(message: Message) -> bytes:
    """The BaseCommand around one command, byte for byte as the protobuf library writes it."""
    body = message.SerializeToString()
    return _PREFIXES[kind_of(message)] + encode_varint(len(body)) + body


def decode_command(data: bytes, repeated_max: int = REPEATED_MAX) -> Command:
    """The command in one serialised BaseCommand.

    `ProtocolError` if there is none; `UnknownValue` or `TooManyParts` if there is one that is not taken.
    """
    try:
        base = pb.BaseCommand.FromString(data)
    except DecodeError as error:
        raise ProtocolError(Reason.BAD_COMMAND, f"a command that is no protobuf: {error}") from None
    if not base.HasField("type"):
        raw_type = _raw_type(base) if _unknown_size(base) <= UNKNOWN_FIELDS_SIZE_MAX else None
        if raw_type is None:
            raise ProtocolError(Reason.BAD_COMMAND, "a command without a type")
        raise ProtocolError(Reason.UNKNOWN_COMMAND, f"a command of type {raw_type}")
    kind = base.type
    name = _FIELD_NAMES[kind]
    # Of PING and PONG nothing but the type is needed; some clients write no more.
    if not base.HasField(name) and kind not in _PINGS:
        raise ProtocolError(Reason.BAD_COMMAND, f"{kind_name(kind)} without its fields")
    command = Command(kind, getattr(base, name))
    messages = [command.message]
    _check_parts(command.message, command, repeated_max, messages)
    _check_values(command, len(data), messages)
    if not command.message.IsInitialized():
        missing = ", ".join(command.message.FindInitializationErrors())  # type: ignore[attr-defined]
        raise ProtocolError(Reason.BAD_COMMAND, f"{kind_name(kind)} without {missing}")
    return command


def _check_parts(
    message: Message, command: Command, repeated_max: int, messages: list[Message]
) -> None:
    """Texts are texts, lists have an end, ids nest once. Add to `messages` those inside this one, but for
    message ids, which have no enums.

    Where a text is not UTF-8 the library hands out bytes instead of `str`, far from here and in the
    hands of the code that reads the field.
    """
    kind = type(message)
    fields = _CHECKED.get(kind)
    if fields is None:
        fields = _CHECKED[kind] = _fields_to_check(kind)
    for name, is_repeated, what in fields:
        if is_repeated:
            if not (values := getattr(message, name)):
                continue
        elif message.HasField(name):
            values = (getattr(message, name),)
        else:
            continue
        if what is _Check.IDS:
            for message_id in values:
                _check_depth(message_id, command.kind)
            continue
        if is_repeated and len(values) > repeated_max:
            where = kind_name(command.kind)
            raise TooManyParts(
                command, f"{where} with {len(values)} {name}; allowed are {repeated_max}"
            )
        if what is _Check.TEXTS:
            if bytes in map(type, values):
                raise ProtocolError(
                    Reason.BAD_COMMAND,
                    f"{kind_name(command.kind)} with a {name} that is not UTF-8",
                )
        elif what is _Check.MESSAGES:
            for part in values:
                messages.append(part)
                _check_parts(part, command, repeated_max, messages)


class _Check(Enum):
    """What a field may have in it that is not taken."""

    IDS = auto()
    TEXTS = auto()
    MESSAGES = auto()
    LENGTH = auto()


# Of the messages that came so far.
_CHECKED: Final[dict[type[Message], Sequence[tuple[str, bool, _Check]]]] = {}


def _fields_to_check(kind: type[Message]) -> Sequence[tuple[str, bool, _Check]]:
    """Name, whether it is a list, and what to check, of the fields of a message that may be refused.
    To ask the library for each command what its fields are takes several times as long as to look at them."""
    found: list[tuple[str, bool, _Check]] = []
    by_number = kind.DESCRIPTOR.fields_by_number
    for field in (by_number[number] for number in sorted(by_number)):
        if field.message_type is pb.MessageIdData.DESCRIPTOR:
            what = _Check.IDS
        elif field.type == FieldDescriptor.TYPE_STRING:
            what = _Check.TEXTS
        elif field.type == FieldDescriptor.TYPE_MESSAGE:
            what = _Check.MESSAGES
        elif field.is_repeated:
            what = _Check.LENGTH
        else:
            continue
        found.append((field.name, field.is_repeated, what))
    return found


def _check_depth(message_id: pb.MessageIdData, kind: int) -> None:
    if message_id.HasField("first_chunk_message_id") and message_id.first_chunk_message_id.HasField(
        "first_chunk_message_id"
    ):
        raise ProtocolError(
            Reason.NESTED_TOO_DEEP,
            f"{kind_name(kind)} with a first chunk inside a first chunk's id",
        )


def _raw_type(base: pb.BaseCommand) -> int | None:
    """The type as written, when it is not one of ours."""
    for number, value in _unknown_varints(base):
        if number == pb.BaseCommand.TYPE_FIELD_NUMBER:
            return value
    return None


def _check_values(command: Command, size: int, messages: list[Message]) -> None:
    """Refuse enum values that are not ours, in a command of these messages that came as so many bytes.

    proto2 keeps them among the unknown fields and reads the enum as absent: a producer asking for an
    access mode of the future would be taken for one that asked for none.
    """
    # Of a small command no more than its size can be unknown, which need not be counted.
    if size <= UNKNOWN_FIELDS_SIZE_MAX or (
        0 < _unknown_size(command.message) <= UNKNOWN_FIELDS_SIZE_MAX
    ):
        for message in messages:
            for number, value in _unknown_varints(message):
                field = message.DESCRIPTOR.fields_by_number.get(number)
                if field is not None and field.type == FieldDescriptor.TYPE_ENUM:
                    raise UnknownValue(command, field.name, value)


def _unknown_size(message: Message) -> int:
    """Bytes of fields that are not declared, at any depth; counted without looking at them."""
    known = type(message)()
    known.CopyFrom(message)
    known.DiscardUnknownFields()
    # Not ByteSize, which refuses a message whose required enum is among them.
    return len(message.SerializePartialToString()) - len(known.SerializePartialToString())


def _unknown_varints(message: Message) -> list[tuple[int, int]]:
    """Number and value of the fields of one message that the library set aside."""
    fields = UnknownFieldSet(message)
    found = [fields[place] for place in range(len(fields))]
    return [(field.field_number, field.data) for field in found if field.wire_type == 0]
