"""What people write: message ids, topic names, configuration files, settings."""

from __future__ import annotations

from collections.abc import Hashable
from pathlib import Path

from fuzz.harness import Target
from milepost.cli.server.conf_text import conf_lines, toml_lines
from milepost.cli.server.sources import load
from milepost.errors import InvalidInput, InvalidSetting
from milepost.positions.ids import MessageId, Position
from milepost.positions.names import NamespaceName, TopicName
from milepost.wire import pulsar_pb2 as pb


def _texts(*texts: str) -> list[bytes]:
    return [text.encode("utf-8", "surrogatepass") for text in texts]


# -- names and ids -----------------------------------------------------------------------------------


def _id_bytes(data: bytes) -> Hashable:
    message_id = MessageId.deserialize(data)
    again = MessageId.deserialize(message_id.serialize())
    assert again == message_id
    assert MessageId.parse(str(message_id)).position == message_id.position
    return type(message_id).__name__


def _id_text(data: bytes) -> Hashable:
    text = data.decode("utf-8", "surrogatepass")
    message_id = MessageId.parse(text)
    assert MessageId.parse(str(message_id)) == message_id
    Position.parse(text)
    return type(message_id).__name__


def _topic_name(data: bytes) -> Hashable:
    text = data.decode("utf-8", "surrogatepass")
    name = TopicName.parse(text)
    assert TopicName.parse(str(name)) == name
    assert NamespaceName.parse(str(name.namespace)) == name.namespace
    assert ".." not in str(name).split("/")
    str(name).encode()
    return name.is_persistent, name.partition >= 0, name.base == name


# -- settings ----------------------------------------------------------------------------------------

CONF = """\
# ports
brokerServicePort=6650
maxMessageSize = 5242880
brokerDeduplicationEnabled=true
! another comment
unknownKey=
keepAliveIntervalSeconds=30
"""
TOML = """\
port = 6650
host = "127.0.0.1"
max_message_size = 5_242_880
deduplication = true
keep_alive_interval_s = 30.5
"""


def _conf(data: bytes) -> Hashable:
    text = data.decode("utf-8", "replace")
    return min(len(list(conf_lines(text, "broker.conf"))), 5)


def _toml(data: bytes) -> Hashable:
    text = data.decode("utf-8", "replace")
    return min(len(list(toml_lines(text, "milepost.toml"))), 5)


def _flags(data: bytes) -> Hashable:
    """Each line is a setting and its value, as `--set` takes them."""
    lines = data.decode("utf-8", "replace").splitlines()
    flags = [("--set", *line.partition("=")[::2]) for line in lines]
    try:
        loaded = load(flags=flags)
    except InvalidSetting as error:
        return str(error).rpartition(": ")[2][:30]
    assert load(flags=flags).settings == loaded.settings
    assert isinstance(loaded.settings.data, Path)
    return True


TARGETS = (
    Target(
        "message_id_bytes",
        _id_bytes,
        lambda: [
            pb.MessageIdData(ledgerId=3, entryId=5).SerializeToString(),
            pb.MessageIdData(ledgerId=3, entryId=5, partition=2, batch_index=1).SerializeToString(),
            pb.MessageIdData(
                ledgerId=3,
                entryId=2**63,
                batch_size=9,
                first_chunk_message_id=pb.MessageIdData(ledgerId=2, entryId=1),
            ).SerializeToString(),
        ],
        (InvalidInput,),
    ),
    Target(
        "message_id_text",
        _id_text,
        lambda: _texts("3:5", "3:5:-1", "3:5:2:7", "(3,5,-1,7)", "3:5:-1;3:9:-1", "-1:-1"),
        (InvalidInput, UnicodeDecodeError),
    ),
    Target(
        "topic_names",
        _topic_name,
        lambda: _texts(
            "t",
            "public/default/t",
            "persistent://public/default/t-partition-3",
            "non-persistent://tenant/name-space/t%20x",
            "persistent://a/b/c/d",
            "persistent://public/default/ü\u202e\ud800",
        ),
        (InvalidInput, UnicodeDecodeError),
    ),
    Target("conf_files", _conf, lambda: _texts(CONF), (InvalidSetting,)),
    Target(
        "toml_files", _toml, lambda: _texts(TOML, "[a.b]\nc = [[1, 2], {d = 1}]"), (InvalidSetting,)
    ),
    Target(
        "settings",
        _flags,
        lambda: _texts("port=1\nhost=::1", "max_message_size=5MiB", "keep_alive_interval_s=1e3"),
        (InvalidSetting,),
    ),
)
