"""What `milepost produce` hands to producers, and how many may wait."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest
from unit.cli.conftest import Line

from milepost.cli.messages.lines import Line as Outgoing
from milepost.cli.messages.produce import Pace, Window, payload_of, producer_options, publish
from milepost.cli.messages.values import ValueCodec
from milepost.errors import InvalidInput, MessageTooBig, SchemaMismatch
from milepost.positions import MessageId
from milepost.schemas import SchemaInfo, SchemaType


class Receipt:
    def __init__(self, outcome: MessageId | Exception) -> None:
        self._outcome = outcome

    def __await__(self) -> Any:
        yield from asyncio.sleep(0).__await__()
        if isinstance(self._outcome, Exception):
            raise self._outcome
        return self._outcome


class Sink:
    """A client whose producers keep what they get."""

    def __init__(self, refuses: bytes | None = None) -> None:
        self.taken: list[tuple[str, bytes, dict[str, Any]]] = []
        self.refuses = refuses

    async def __aenter__(self) -> Sink:
        return self

    async def __aexit__(self, *error: object) -> None:
        pass

    async def create_producer(self, topic: str, **options: Any) -> SinkProducer:
        return SinkProducer(self, topic)


class SinkProducer:
    def __init__(self, sink: Sink, topic: str) -> None:
        self.sink, self.topic = sink, topic

    async def enqueue(self, data: bytes, **fields: Any) -> Receipt:
        if data == self.sink.refuses:
            return Receipt(MessageTooBig("too big"))
        self.sink.taken.append((self.topic, data, fields))
        return Receipt(MessageId(3, len(self.sink.taken) - 1))


async def lines(*data: bytes) -> Any:
    for one in data:
        yield Outgoing(one, "k", {"a": "b"})


def published(sink: Sink, *data: bytes, **more: Any) -> int:
    client = cast("Any", sink)
    return asyncio.run(publish(client, "orders", lines(*data), {}, **more))


def test_every_line_is_published_with_what_belongs_to_it(
    capsys: pytest.CaptureFixture[str],
) -> None:
    sink = Sink()
    assert published(sink, b"x", b"y", show_ids=True) == 2
    assert sink.taken[0] == (
        "orders",
        b"x",
        {
            "properties": {"a": "b"},
            "partition_key": "k",
            "event_timestamp": None,
            "ordering_key": None,
        },
    )
    assert capsys.readouterr().out == "3:0:-1\n3:1:-1\n"


def test_more_than_may_wait() -> None:
    assert published(Sink(), *[b"x"] * 3000) == 3000


def test_a_refusal_is_raised_and_ends_it() -> None:
    sink = Sink(refuses=b"big")
    with pytest.raises(MessageTooBig):
        published(sink, *[b"x"] * 10, b"big", *[b"x"] * 5000)
    assert len(sink.taken) < 3000


def test_a_window_fills_up_and_opens_at_half() -> None:
    async def tried() -> list[bool]:
        window = Window(4)
        for _ in range(4):
            await window.enter()
        late = asyncio.create_task(window.enter())
        await asyncio.sleep(0)  # it waits now
        seen = []
        for _ in range(2):
            window.leave()
            for _ in range(3):
                await asyncio.sleep(0)
            seen.append(late.done())
        return seen

    assert asyncio.run(tried()) == [False, True]


def test_a_pace_of_none_never_waits() -> None:
    asyncio.run(Pace(0.0).wait())


def test_options() -> None:
    given: dict[str, Any] = {
        "chunking": True, "disable_batching": False, "compression": "zstd", "producer_name": None,
    }  # fmt: skip
    made = producer_options(given)
    assert (made["chunking_enabled"], made["batching_enabled"]) == (True, False)
    assert made["compression_type"].name == "ZSTD"


def test_a_file_that_is_not_there(line: Line) -> None:
    line("produce", "orders", "-f", "missing.bin")
    assert (line.code, line.err.count("\n"), line.asked) == (5, 1, [])
    assert "missing.bin: there is no such file" in line.err


def test_a_bad_line_is_told_before_anything_is_sent(line: Line) -> None:
    line("produce", "orders", "-m", "x", "--json")
    assert (line.code, line.asked) == (2, [])


NUMBER = ValueCodec(SchemaInfo("", SchemaType.INT32, b""))
TEXT = ValueCodec(SchemaInfo("", SchemaType.STRING, b""))


@pytest.mark.parametrize(
    ("line", "codec", "is_json", "payload"),
    [
        (Outgoing(b"7"), NUMBER, False, b"\0\0\0\7"),
        (Outgoing(b"7"), TEXT, False, b"7"),
        (Outgoing(b"seven"), TEXT, False, b"seven"),
        (Outgoing(None, value=7), NUMBER, True, b"\0\0\0\7"),
        (Outgoing(b"\0\0\0\7"), NUMBER, True, b"\0\0\0\7"),
        (Outgoing(None), NUMBER, True, None),
        (Outgoing(b"7"), None, False, b"7"),
    ],
)
def test_what_a_schema_makes_of_a_line(
    line: Outgoing, codec: ValueCodec | None, is_json: bool, payload: bytes | None
) -> None:
    assert payload_of(line, codec, is_json=is_json) == payload


def test_lines_that_no_schema_can_take() -> None:
    with pytest.raises(InvalidInput, match="expected JSON, for the topic's INT32 schema"):
        payload_of(Outgoing(b"seven"), NUMBER, is_json=False)
    with pytest.raises(SchemaMismatch):
        payload_of(Outgoing(b'"seven"'), NUMBER, is_json=False)
    with pytest.raises(InvalidInput, match="--schema makes bytes of it"):
        payload_of(Outgoing(None, value=7), None, is_json=True)


def test_a_topic_without_a_schema(line: Line) -> None:
    line("produce", "orders", "--schema", "-m", "7", answers=(404,))
    assert line.code == 5
    assert "has no schema" in line.err
