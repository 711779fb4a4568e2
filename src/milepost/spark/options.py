"""The options of `format("milepost")`: parsed and checked.

Spark hands every option over as text under a name whose case does not count. Here each is known, checked
and given its type once; what is unknown is an error that names the nearest known one, because a limit that
was misspelt is no limit. Nothing here talks to a broker: `latest` stays `latest`.

    >>> options = read_options({"serviceUrl": "pulsar://localhost:6650", "topic": "events"})
    >>> options.topics, options.starting.default
    (('persistent://public/default/events',), Bound(kind='earliest', value=0))
    >>> read_options({"topicc": "events"})
    Traceback (most recent call last):
    milepost.errors.InvalidOption: there is no option topicc; did you mean topic?
"""

from __future__ import annotations

import difflib
import json
import os
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, TypeVar

from milepost.client.connection.endpoint import Endpoint
from milepost.errors import InvalidInput, InvalidMessageId, InvalidOption
from milepost.positions.ids import MessageId
from milepost.positions.names import TopicName

if TYPE_CHECKING:
    from milepost.admin import Admin

T = TypeVar("T")

SERVICE_URL_DEFAULT: Final = "pulsar://localhost:6650"
# How long one answer may take before the task fails, and Spark tries again.
TIMEOUT_S: Final = 30.0
# How long the transactions of a batch may be open: from the first row of a task to the driver's commit.
TRANSACTION_TIMEOUT_S: Final = 600.0

Kind = Literal["earliest", "latest", "index", "timestamp", "message_id", "subscription"]


class Bound(NamedTuple):
    """Where a range begins or ends, before a broker was asked."""

    kind: Kind
    value: int | str = 0
    """The index; milliseconds since 1970; a message id as text; the name of a subscription."""


EARLIEST: Final = Bound("earliest")
LATEST: Final = Bound("latest")


class Bounds(NamedTuple):
    """A bound for every partition: some by name, the rest by default."""

    default: Bound
    by_topic: tuple[tuple[str, Bound], ...] = ()
    """By the partition's full name, in order."""

    def of(self, topic: str) -> Bound:
        return dict(self.by_topic).get(topic, self.default)


FROM_EARLIEST: Final = Bounds(EARLIEST)
TO_LATEST: Final = Bounds(LATEST)


class TopicsPattern(NamedTuple):
    """Topics by a regular expression over the full names of one namespace."""

    namespace: str
    expression: str

    def matches(self, topic: TopicName) -> bool:
        """Is it one of them? A partition is one of them when its topic is."""
        return re.fullmatch(self.expression, topic.base.text) is not None


@dataclass(frozen=True)
class ReadOptions:
    """What to read, how much at a time, and as which columns."""

    connection: Endpoint
    """How the broker is reached, and who asks."""
    topics: tuple[str, ...] = ()
    """Full names, each a topic or one partition."""
    topics_pattern: TopicsPattern | None = None
    """Topics that come later are picked up."""
    starting: Bounds = FROM_EARLIEST
    ending: Bounds = TO_LATEST
    """Of a batch read. Exclusive."""
    messages_max: int | None = None
    """Per trigger, exact."""
    bytes_max: int | None = None
    """Per trigger, by the mean size of messages."""
    messages_min: int = 0
    """Per trigger, while `delay_max_s` has not passed."""
    delay_max_s: float = 900.0
    partitions_min: int | None = None
    """Tasks, at least; None: as many as Spark has cores for, or one a partition where it cannot be
    known."""
    slice_max: int | None = None
    """Messages of a task, at most."""
    columns: tuple[str, ...] | None = None
    """None: the usual ones (columns.USUAL)."""
    decode: str = "raw"
    permissive: bool = False
    """A value that cannot be decoded becomes a row with its bytes in `_corrupt`, not an error."""
    value_schema: str | None = None
    """Of `decode=json`: the type of the values, in Spark's words; None: by the topic's schema."""
    schema_version: int | None = None
    """The version of the topic's schema to read by; None: the newest."""
    fail_on_data_loss: bool = True
    subscription: str | None = None
    """Durable: pins where the query began, and shows its progress."""
    push_filters: bool = False


@dataclass(frozen=True)
class WriteOptions:
    """Where to write, and what is promised."""

    connection: Endpoint
    """How the broker is reached, and who asks."""
    topic: str = ""
    """Empty: each row says it, in its column `topic`."""
    delivery: str = "atLeastOnce"
    unique_key: str | None = None
    """The column that exactly once goes by; None: the source's topic and index."""
    producer_prefix: str | None = None
    """Names the producers of a batch write, which has no query to be named by."""
    compression: str = "lz4"
    batch_messages_max: int = 1_000
    encode: str = "raw"
    target_schema: str | None = None
    """As JSON: registered on connect; None: the topic's own."""
    transactional: bool = False
    """A batch counts as a whole, and once."""
    transaction_timeout_s: float = TRANSACTION_TIMEOUT_S


# -- values ----------------------------------------------------------------------------------------


def _bad(name: str, text: str, allowed: str) -> InvalidOption:
    return InvalidOption(f"option {name} is {text[:80]!a}; allowed is {allowed}")


def _integer(least: int) -> Callable[[str, str], int]:
    def parse(name: str, text: str) -> int:
        if not re.fullmatch(r"[0-9]{1,18}", text) or int(text) < least:
            raise _bad(name, text, f"a whole number from {least}")
        return int(text)

    return parse


def _flag(name: str, text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise _bad(name, text, "true or false")
    return text.lower() == "true"


_UNITS: Final = {"ms": 0.001, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0}


def _duration(name: str, text: str) -> float:
    found = re.fullmatch(r"([0-9]{1,12}) ?(ms|s|min|m|h)", text.strip())
    if found is None:
        raise _bad(name, text, "a number and a unit, as 500ms, 30s, 15m, 1h")
    return int(found[1]) * _UNITS[found[2]]


def _choice(*allowed: str) -> Callable[[str, str], str]:
    def parse(name: str, text: str) -> str:
        for one in allowed:
            if text.lower() == one.lower():
                return one
        raise _bad(name, text, " | ".join(allowed))

    return parse


def _text(name: str, text: str) -> str:
    if not text.strip():
        raise _bad(name, text, "some text")
    return text


def _file(name: str, text: str) -> str:
    """A path as executors take it, which run in directories of their own."""
    return os.path.abspath(_text(name, text))


def _url(*schemes: str) -> Callable[[str, str], str]:
    def parse(name: str, text: str) -> str:
        known = "|".join(map(re.escape, schemes))
        if not re.fullmatch(rf"(?:{known})://[^/\s]+/?", text):
            raise _bad(name, text, " or ".join(f"{scheme}://host:port" for scheme in schemes))
        return text.rstrip("/")

    return parse


def topic_name(name: str, text: str) -> str:
    """The full name of a topic that keeps what it is given."""
    try:
        topic = TopicName.parse(text.strip())
    except InvalidInput as error:
        raise InvalidOption(f"option {name}: {error}") from None
    if not topic.is_persistent:
        raise InvalidOption(
            f"option {name}: {text} is not persistent, so it has no indexes to read"
        )
    return topic.text


def _topics(name: str, text: str) -> tuple[str, ...]:
    found = tuple(topic_name(name, one) for one in text.split(",") if one.strip())
    if not found:
        raise _bad(name, text, "names of topics, with commas between")
    return tuple(dict.fromkeys(found))


def _pattern(name: str, text: str) -> TopicsPattern:
    path = text.removeprefix("persistent://")
    parts = path.split("/")
    if len(parts) == 1:
        parts = ["public", "default", path]
    namespace = "/".join(parts[:2])
    if len(parts) != 3 or not re.fullmatch(r"[-=:A-Za-z0-9_]+/[-=:A-Za-z0-9_]+", namespace):
        raise _bad(name, text, "tenant/namespace/ and a regular expression, or that alone")
    expression = f"persistent://{namespace}/{parts[2]}"
    try:
        re.compile(expression)
    except re.error as error:
        raise InvalidOption(
            f"option {name} is {text[:80]!a}, no regular expression: {error}"
        ) from None
    return TopicsPattern(namespace, expression)


def _columns(name: str, text: str) -> tuple[str, ...]:
    found = tuple(dict.fromkeys(one.strip() for one in text.split(",") if one.strip()))
    if not found:
        raise _bad(name, text, "names of columns, with commas between")
    return found


_BOUND_FORMS: Final = (
    "earliest, latest, an index, timestamp:<milliseconds or ISO 8601>, messageId:<id>, "
    "subscription:<name>, or JSON of partition topics and any of these"
)


def bound(name: str, given: object) -> Bound:
    """One end of a range, in any of its forms."""
    if type(given) is int and 0 <= given < 1 << 63:
        return Bound("index", given)
    text = str(given).strip()
    kind, colon, value = text.partition(":")
    match kind.lower():
        case "earliest" | "latest" if not colon:
            return EARLIEST if kind.lower() == "earliest" else LATEST
        case "timestamp" if value:
            return Bound("timestamp", _milliseconds(name, value))
        case "messageid" if value:
            try:
                return Bound("message_id", str(MessageId.parse(value)))
            except InvalidMessageId as error:
                raise InvalidOption(f"option {name}: {error}") from None
        case "subscription" if value:
            return Bound("subscription", value)
    if isinstance(given, str) and re.fullmatch(r"[0-9]{1,18}", text):
        return Bound("index", int(text))
    raise _bad(name, text, _BOUND_FORMS)


def _milliseconds(name: str, text: str) -> int:
    if re.fullmatch(r"[0-9]{1,15}", text):
        return int(text)
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise _bad(name, text, "milliseconds since 1970, or a time as ISO 8601 writes it") from None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return round(moment.timestamp() * 1000)


def _bounds(default: Bound) -> Callable[[str, str], Bounds]:
    def parse(name: str, text: str) -> Bounds:
        if not text.lstrip().startswith("{"):
            return Bounds(bound(name, text))
        try:
            found = json.loads(text)
        except ValueError:
            raise _bad(name, text, _BOUND_FORMS) from None
        by_topic = {topic_name(name, topic): bound(name, one) for topic, one in found.items()}
        return Bounds(default, tuple(sorted(by_topic.items())))

    return parse


# -- the tables ------------------------------------------------------------------------------------


class Option(NamedTuple):
    """A row of docs/spark.md."""

    field: str
    parse: Callable[[str, str], Any]
    meaning: str


_CONNECTION: Final = {
    "serviceUrl": Option(
        "url", _url("pulsar", "pulsar+ssl"), "the broker; with TLS, pulsar+ssl://"
    ),
    "adminUrl": Option(
        "admin_url", _url("http", "https"), "its HTTP side; needed with Apache Pulsar"
    ),
    "token": Option("token", _text, "a JSON web token"),
    "tokenFile": Option("token_file", _file, "a file with the token, on every node"),
    "user": Option("user", _text, "a user's name, with a password"),
    "password": Option("password", _text, "the password of the user"),
    "tlsTrustCertsFilePath": Option("tls_trust_certs", _file, "authorities to trust, as PEM"),
    "tlsCertificateFilePath": Option("tls_certificate", _file, "a certificate of your own"),
    "tlsKeyFilePath": Option("tls_key", _file, "the key of that certificate"),
    "tlsAllowInsecureConnection": Option("tls_allow_insecure", _flag, "trust any certificate"),
    "timeout": Option("timeout_s", _duration, "how long an answer may take"),
}
READ: Final = {
    **_CONNECTION,
    "topic": Option("topics", _topics, "one topic"),
    "topics": Option("topics", _topics, "several, with commas between"),
    "topicsPattern": Option("topics_pattern", _pattern, "all whose full name matches"),
    "startingIndex": Option("starting", _bounds(EARLIEST), "where to begin"),
    "endingIndex": Option("ending", _bounds(LATEST), "where a batch ends, exclusive"),
    "maxMessagesPerTrigger": Option("messages_max", _integer(1), "size of a micro-batch, at most"),
    "maxBytesPerTrigger": Option("bytes_max", _integer(1), "the same in bytes, by the mean size"),
    "minMessagesPerTrigger": Option("messages_min", _integer(0), "wait for so many"),
    "maxTriggerDelay": Option("delay_max_s", _duration, "but no longer than this"),
    "minPartitions": Option("partitions_min", _integer(1), "tasks, at least"),
    "maxMessagesPerPartition": Option("slice_max", _integer(1), "messages of a task, at most"),
    "columns": Option("columns", _columns, "which columns, and in which order; all"),
    "decode": Option(
        "decode",
        _choice("raw", "schema", "json", "avro", "protobuf"),
        "what becomes of the value",
    ),
    "mode": Option("permissive", _choice("failfast", "permissive"), "what bad values do"),
    "valueSchema": Option("value_schema", _text, "type of JSON values, where no schema says it"),
    "schemaVersion": Option(
        "schema_version", _integer(0), "of the schema to read by, if not the newest"
    ),
    "failOnDataLoss": Option("fail_on_data_loss", _flag, "whether a missing range is an error"),
    "subscription": Option("subscription", _text, "pins the start, shows the progress"),
    "pushFilters": Option("push_filters", _flag, "offer filters to the source; see below"),
}
WRITE: Final = {
    **_CONNECTION,
    "topic": Option("topic", topic_name, "where to write"),
    "delivery": Option("delivery", _choice("atLeastOnce", "exactlyOnce"), "what a retry may do"),
    "transactional": Option("transactional", _flag, "whether a batch counts as a whole, and once"),
    "transactionTimeout": Option(
        "transaction_timeout_s", _duration, "how long a batch may take, in transactions"
    ),
    "uniqueKey": Option("unique_key", _text, "the column that exactly once goes by"),
    "producerPrefix": Option("producer_prefix", _text, "names the producers of a batch write"),
    "compression": Option(
        "compression", _choice("none", "lz4", "zlib", "zstd", "snappy"), "of batches"
    ),
    "encode": Option("encode", _choice("raw", "schema"), "what makes the value"),
    "targetSchema": Option("target_schema", _text, "the schema to write by, if not the topic's"),
    "batchMessages": Option("batch_messages_max", _integer(1), "messages of a batch, at most"),
}

_ONE_OF: Final = ("topic", "topics", "topicsPattern")


def read_options(given: Mapping[str, str]) -> ReadOptions:
    """The options of a read; `InvalidOption` names the first that cannot be used."""
    values = _parsed(given, READ)
    named = [one for one in _ONE_OF if one.lower() in {name.lower() for name in given}]
    if len(named) != 1:
        raise InvalidOption(
            f"one of {', '.join(_ONE_OF)} says what to read; given: {', '.join(named) or 'none'}"
        )
    values["permissive"] = values.pop("permissive", "failfast") == "permissive"
    found = ReadOptions(_connection(values), **values)
    if found.value_schema is not None and found.decode != "json":
        raise InvalidOption(f"option valueSchema needs decode=json; decode is {found.decode}")
    if found.schema_version is not None and found.decode == "raw":
        raise InvalidOption("option schemaVersion says how values are decoded; decode is raw")
    return found


def write_options(given: Mapping[str, str]) -> WriteOptions:
    """The options of a write."""
    values = _parsed(given, WRITE)
    if values.get("transactional"):
        _check_transactional(values)
    elif "topic" not in values:
        raise InvalidOption("option topic says where to write, and is missing")
    elif "transaction_timeout_s" in values:
        raise InvalidOption("option transactionTimeout needs transactional=true")
    if "unique_key" in values and values.get("delivery") != "exactlyOnce":
        raise InvalidOption(
            "option uniqueKey is what delivery=exactlyOnce goes by, which is not asked for"
        )
    if "target_schema" in values and values.setdefault("encode", "schema") == "raw":
        raise InvalidOption("option targetSchema says how values are encoded; encode is raw")
    return WriteOptions(_connection(values), **values)


def _check_transactional(values: Mapping[str, Any]) -> None:
    for field, name in (("delivery", "delivery"), ("unique_key", "uniqueKey")):
        if field in values:
            raise InvalidOption(
                f"options transactional and {name} each say how a batch is written once: give one"
            )
    if "topic" not in values and (values.get("encode") == "schema" or "target_schema" in values):
        raise InvalidOption(
            "option encode=schema goes by the schema of one topic, so option topic must name it"
        )
    if values.get("transaction_timeout_s", 1) <= 0:
        raise InvalidOption("option transactionTimeout is 0; allowed is a time above it")


def _connection(values: dict[str, Any]) -> Endpoint:
    fields = [option.field for option in _CONNECTION.values()]
    given: dict[str, Any] = {"url": SERVICE_URL_DEFAULT, "timeout_s": TIMEOUT_S}
    given |= {field: values.pop(field) for field in fields if field in values}
    if "password" in given and "user" not in given:
        raise InvalidOption("option password needs option user, which is missing")
    kinds = [one for one in ("token", "token_file", "user") if one in given]
    if len(kinds) > 1:
        names = [name for name, option in _CONNECTION.items() if option.field in kinds]
        raise InvalidOption(f"options {' and '.join(names)} each say who asks: give one")
    try:
        return Endpoint(**given)
    except InvalidInput as error:
        raise InvalidOption(str(error)) from None


def admin_of(endpoint: Endpoint) -> Admin:
    """The broker's HTTP side; `InvalidOption` if it is not known."""
    if endpoint.admin_url is None:
        raise InvalidOption(f"option adminUrl is missing: {endpoint.url} tells this over HTTP only")
    return endpoint.admin()


def _parsed(given: Mapping[str, str], table: Mapping[str, Option]) -> dict[str, Any]:
    known = {name.lower(): name for name in table}
    values: dict[str, Any] = {}
    for name, text in given.items():
        found = known.get(name.lower())
        if found is None:
            raise InvalidOption(f"there is no option {name}{_nearest(name, table)}")
        values[table[found].field] = table[found].parse(found, text)
    return values


def _nearest(name: str, table: Iterable[str]) -> str:
    lower = {one.lower(): one for one in table}
    near = difflib.get_close_matches(name.lower(), lower, n=1)
    return f"; did you mean {lower[near[0]]}?" if near else f"; there are {', '.join(table)}"
