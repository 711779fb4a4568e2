"""What `milepost consume` wants, where it begins, and how it prints and acks."""

from __future__ import annotations

import asyncio
import io
from typing import Any, cast

import pytest
from unit.admin.conftest import Played
from unit.cli.conftest import Face, Line
from unit.cli.messages.test_templates import message

from milepost.cli.exits import CommandFailed, Exit
from milepost.cli.messages.consume import Left, Printer, Wanted, is_past, print_all, resolve
from milepost.cli.messages.templates import compile_template
from milepost.cli.progress.places import Kind, Place, parse_place
from milepost.client.connection.endpoint import Endpoint
from milepost.positions import EARLIEST, LATEST, MessageId

TOPIC = "persistent://public/default/orders"


def resolved(monkeypatch: pytest.MonkeyPatch, begin: str, until: str | None, *answers: Any) -> Any:
    monkeypatch.setattr(Endpoint, "admin", lambda self: Face(Played(*answers)))
    return resolve(Endpoint(), "orders", parse_place(begin), until)


NONE_YET = {"ledgerId": -1, "entryId": -1}
NONE = {"partitions": 0}
AT = {"ledgerId": 3, "entryId": 7, "batchIndex": 2}


@pytest.mark.parametrize(
    ("begin", "answers", "at"),
    [
        ("earliest", (), EARLIEST),
        ("latest", (), LATEST),
        ("3:7", (), MessageId(3, 7)),
        ("idx:5", (AT,), MessageId(3, 7, -1, 2)),
        ("idx:5", (404, AT, {"index": 4}), LATEST),
        ("@5", (AT,), MessageId(3, 7, -1, 2)),
        ("-10", (AT, {"index": 99}, AT), MessageId(3, 7, -1, 2)),
    ],
)
def test_where_it_begins(
    monkeypatch: pytest.MonkeyPatch, begin: str, answers: tuple[Any, ...], at: MessageId
) -> None:
    partitions, begins, ends = resolved(monkeypatch, begin, None, NONE, *answers)
    assert partitions == [TOPIC]
    assert begins == {TOPIC: at}
    assert ends == {TOPIC: None}


def test_where_it_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    assert resolved(monkeypatch, "earliest", "idx:9", NONE)[2] == {TOPIC: Place(Kind.INDEX, 9)}
    end = resolved(monkeypatch, "earliest", "latest", NONE, AT, {"index": 99})[2]
    assert end == {TOPIC: Place(Kind.INDEX, 100)}


def test_every_partition_has_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    partitions, begins, _ = resolved(
        monkeypatch, "idx:5", None, {"partitions": 2}, AT, 404, AT, {"index": 2}
    )
    assert begins == dict(zip(partitions, [MessageId(3, 7, -1, 2), LATEST], strict=True))


def test_an_index_that_no_partition_has_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    short = (404, AT, {"index": 2})
    with pytest.raises(CommandFailed, match="no index 5; the end is 3"):
        resolved(monkeypatch, "idx:5", None, {"partitions": 2}, *short, *short)


@pytest.mark.parametrize(
    ("end", "is_it"),
    [
        ("42", False),
        ("41", True),
        ("@1701", False),
        ("@1700", True),
        ("3:8", False),
        ("3:7:1:2", True),
    ],
)
def test_the_first_that_is_not_wanted(end: str, is_it: bool) -> None:
    assert is_past(message(), parse_place(end)) is is_it


def test_so_many_over_all_partitions() -> None:
    left = Left(2)
    assert [left.take(), left.is_none.is_set(), left.take(), left.is_none.is_set(), left.take()] == [
        True, False, True, True, False,
    ]  # fmt: skip
    assert all(Left(0).take() for _ in range(9))


def test_a_message_is_acked_when_it_has_been_flushed() -> None:
    class Out(io.BytesIO):
        flushed = 0

        def flush(self) -> None:
            self.flushed += 1

    async def tried() -> list[int]:
        out, acked = Out(), []
        printer = Printer(out)

        def ack() -> asyncio.Future[None]:
            acked.append(out.flushed)
            done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            done.set_result(None)
            return done

        printer.print(b"x", ack)
        assert acked == []
        await printer.close()
        assert out.getvalue() == b"x"
        return acked

    assert asyncio.run(tried()) == [1]


def test_a_closed_pipe_ends_the_printer() -> None:
    class Closed(io.BytesIO):
        def flush(self) -> None:
            raise BrokenPipeError

    async def tried() -> None:
        printer = Printer(cast("Any", Closed()))
        printer.print(b"x", None)
        await printer.run()

    with pytest.raises(BrokenPipeError):
        asyncio.run(tried())


class Source:
    """A client and a reader in one, with messages of known indexes."""

    def __init__(self, *indexes: int) -> None:
        self._messages = [message(b"m%d" % index, index) for index in indexes]

    async def __aenter__(self) -> Source:
        return self

    async def __aexit__(self, *error: object) -> None:
        pass

    async def create_reader(self, *args: Any, **options: Any) -> Source:
        return self

    async def has_message_available(self) -> bool:
        return bool(self._messages)

    async def read_next(self, timeout_millis: int | None) -> Any:
        return self._messages.pop(0)


@pytest.mark.parametrize(
    ("first", "until", "count", "shown"),
    [
        (0, None, 0, b"m4 m5 m6 m7 "),
        (5, None, 0, b"m5 m6 m7 "),
        (0, Place(Kind.INDEX, 6), 0, b"m4 m5 "),
        (5, None, 2, b"m5 m6 "),
    ],
)
def test_what_is_wanted_is_printed(
    first: int, until: Place | None, count: int, shown: bytes
) -> None:
    options = {"receiver_queue_size": 1}
    wanted = Wanted(
        compile_template("%v "),
        lambda message: True,
        {TOPIC: EARLIEST},
        {TOPIC: until},
        first,
        count,
        True,
        None,
        options,
    )
    out = io.BytesIO()
    asyncio.run(print_all(cast("Any", Source(4, 5, 6, 7)), [TOPIC], wanted, out))
    assert out.getvalue() == shown


def test_a_subscription_begins_where_it_stands(line: Line) -> None:
    line("consume", "orders", "-s", "billing", "--from", "0")
    assert line.code == 2
    assert "`milepost seek` moves it" in line.err


@pytest.mark.parametrize(
    "words", [("-f", "%z"), ("--from", "soon"), ("-t", "Private"), ("-n", "-1")]
)
def test_lines_that_make_no_sense(line: Line, words: tuple[str, ...]) -> None:
    line("consume", "orders", *words)
    assert (line.code, line.asked, line.err.count("\n")) == (2, [], 1)


@pytest.mark.parametrize(
    ("last", "words"),
    [({"ledgerId": 3, "entryId": 9}, "the last is 3:9:-1"), (NONE_YET, "it has no messages")],
)
def test_an_id_behind_the_last_is_not_found(
    monkeypatch: pytest.MonkeyPatch, last: dict[str, int], words: str
) -> None:
    with pytest.raises(CommandFailed, match=f"there is no id 99:7:-1; {words}") as refused:
        resolved(monkeypatch, "99:7", None, NONE, 404, last)
    assert refused.value.code == Exit.NOT_FOUND


def test_an_id_that_has_expired_is_left_to_the_broker(monkeypatch: pytest.MonkeyPatch) -> None:
    last = {"ledgerId": 3, "entryId": 9}
    _, begins, _ = resolved(monkeypatch, "1:7", None, NONE, 404, last)
    assert begins == {TOPIC: MessageId(1, 7)}


@pytest.mark.parametrize("place", ["index:7", "3:7"])
def test_a_part_of_a_chunked_message_begins_with_its_first_chunk(
    monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    def chunk(number: int) -> tuple[dict[str, str], bytes]:
        headers = {
            "x-pulsar-message-id": f"3:{number}",
            "x-pulsar-broker-entry-metadata-index": f"{number}",
            "x-pulsar-uuid": "u",
            "x-pulsar-chunk-id": f"{number - 5}",
            "x-pulsar-num-chunks-from-msg": "3",
        }
        return headers, b""

    at = [{"ledgerId": 3, "entryId": number} for number in range(8)]
    asked_first = [at[7]] if place == "index:7" else []
    answers = (*asked_first, chunk(7), at[6], chunk(6), at[5], chunk(5))
    _, begins, _ = resolved(monkeypatch, place, None, NONE, *answers)
    assert begins == {TOPIC: MessageId(3, 5)}


def test_a_subscription_leaves_nothing_out(line: Line) -> None:
    line("consume", "orders", "-s", "billing", "--where", "key=a")
    assert line.code == 2
    assert "hold or ack" in line.err
