"""PIP-31, transactions: who sees what, as a table. Everything sees committed messages, and nothing else.

A row is one way to look at a topic, a column is what became of the transactions in it. Each cell asks the
same question twice: what is seen, and what is expected from the list of committed messages alone. The table
of `docs/transactions.md` has the same rows and columns; how clients in processes of their own see it is
tested in `test_pip31_client.py`.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from pips import test_pip31_client
from stage.frames import batch, chunk, message
from stage.http import Web
from stage.stage import TOPIC, Stage
from stage.talk import (
    EXCLUSIVE,
    FAILOVER,
    KEY_SHARED,
    SHARED,
    error_of,
    produce,
    request,
    subscribe,
    wire_id,
)

from milepost.broker.monitoring.progress import progress_of, sample
from milepost.broker.operations import backlog_quota
from milepost.broker.operations.reset import Move, Reset, Target, decide
from milepost.broker.policies.effective import HOLD, Quota
from milepost.errors import IndexNotFound
from milepost.positions import TxnId
from milepost.positions.ids import MessageId
from milepost.testing.peer import Loopback
from milepost.wire import pulsar_pb2 as pb
from milepost.wire.batches import split_batch
from milepost.wire.events import Delivery
from milepost.wire.metadata import split_entry

# They are tested where Spark is (tests/spark/test_transactional.py).
SPARK_ROWS = ("Spark: a batch", "Spark: a stream")
DOCS = Path(__file__).parents[2] / "docs" / "transactions.md"
HOUR_MS = 3_600_000
HELD = "held back"


class Message(NamedTuple):
    """One message of the scene."""

    index: int  # type: ignore[assignment]  # in place of tuple.index, which has no use here
    entry_id: int
    text: str
    key: str
    txn: str
    """The transaction that it belongs to; empty for none."""


class Scene:
    """A topic with messages in and outside of transactions, and the list of those that are committed."""

    def __init__(self, stage: Stage) -> None:
        self.stage = stage
        self.messages: list[Message] = []
        self.client = stage.client()
        produce(stage, self.client)
        assert not error_of(subscribe(stage, self.client, "s", SHARED))  # it reads nothing
        self._txns: dict[str, TxnId] = {}
        self._ends: dict[str, Any] = {}
        self._sequence_ids = itertools.count()
        self._next_index = 0
        self._next_entry = 0

    @property
    def web(self) -> Web:
        return Web(self.stage)

    @property
    def committed(self) -> list[Message]:
        """What everybody may see: nothing from the first open transaction on, nothing aborted."""
        seen: list[Message] = []
        for one in self.messages:
            if one.txn and one.txn not in self._ends:
                break
            if not one.txn or self._ends[one.txn] == pb.COMMIT:
                seen.append(one)
        return seen

    @property
    def entries(self) -> list[int]:
        """The entry ids of what is committed."""
        return list(dict.fromkeys(one.entry_id for one in self.committed))

    def open(self, name: str) -> None:
        reply = request(self.stage, self.client, pb.CommandNewTxn(txn_ttl_millis=HOUR_MS))
        txn_id = self._txns[name] = TxnId(reply.txnid_most_bits, reply.txnid_least_bits)
        command = pb.CommandAddPartitionToTxn(partitions=[TOPIC], **_bits(txn_id))
        assert not error_of(request(self.stage, self.client, command))

    def single(self, key: str, txn: str = "") -> None:
        number = next(self._sequence_ids)
        self._send(
            [message(number, partition_key=key, **self._fields(txn))], [f"{number}"], key, txn
        )

    def batch(self, count: int, txn: str = "") -> None:
        number = next(self._sequence_ids)
        texts = [f"{number}.{place}" for place in range(count)]
        self._send([batch(number, count, **self._fields(txn))], texts, "", txn)

    def chunked(self, count: int, key: str, txn: str = "") -> None:
        number = next(self._sequence_ids)
        for place in range(count):
            fields = {"partition_key": key, **self._fields(txn)}
            self._send([chunk(number, place, count, **fields)], [f"{number}/{place}"], key, txn)

    def _send(self, frames: list[bytes], texts: list[str], key: str, txn: str) -> None:
        self.client.say(*frames)
        self.stage.turn()
        for text in texts:
            self.messages.append(Message(self._next_index, self._next_entry, text, key, txn))
            self._next_index += 1
        self._next_entry += 1

    def end(self, name: str, action: Any) -> None:
        command = pb.CommandEndTxn(txn_action=action, **_bits(self._txns[name]))
        assert not error_of(request(self.stage, self.client, command))
        self._ends[name] = action
        self._next_index += 1  # its marker
        self._next_entry += 1

    def _fields(self, txn: str) -> dict[str, int]:
        return _bits(self._txns[txn]) if txn else {}

    @property
    def end_index(self) -> int:
        return self._next_index

    @property
    def end_entry(self) -> int:
        return self._next_entry


def _bits(txn_id: TxnId) -> dict[str, int]:
    return {"txnid_least_bits": txn_id.least, "txnid_most_bits": txn_id.most}


# -- columns: what became of the transactions --------------------------------------------------------


def _mixed(scene: Scene) -> None:
    scene.single("a")
    scene.open("one")
    scene.single("a", "one")
    scene.batch(3, "one")
    scene.chunked(2, "c", "one")
    scene.single("b")


def open_one(scene: Scene) -> None:
    _mixed(scene)


def committed(scene: Scene) -> None:
    _mixed(scene)
    scene.end("one", pb.COMMIT)


def aborted(scene: Scene) -> None:
    _mixed(scene)
    scene.end("one", pb.ABORT)


def all_aborted(scene: Scene) -> None:
    scene.open("one")
    scene.single("a", "one")
    scene.end("one", pb.ABORT)


def interleaved(scene: Scene) -> None:
    """Two that end, one each way, and a third that does not, between ordinary messages."""
    for name in ("one", "two", "three"):
        scene.open(name)
    scene.single("a", "two")
    scene.single("b", "one")
    scene.batch(2)
    scene.chunked(2, "c", "two")
    scene.batch(2, "one")
    scene.end("two", pb.ABORT)
    scene.single("d", "three")
    scene.single("a")
    scene.end("one", pb.COMMIT)


COLUMNS = {
    "open": open_one,
    "committed": committed,
    "aborted": aborted,
    "nothing but aborted": all_aborted,
    "interleaved": interleaved,
}
RESTARTS = {"": None, "after a restart": False, "after a checkpoint and a restart": True}


@pytest.fixture(params=COLUMNS)
def column(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(params=RESTARTS)
def scene(request: pytest.FixtureRequest, column: str) -> Iterator[Scene]:
    with Stage() as stage:
        scene = Scene(stage)
        COLUMNS[column](scene)
        checkpoint = RESTARTS[request.param]
        if checkpoint is not None:
            scene.stage = stage.restarted(checkpoint=checkpoint)
            scene.stage.topic()
            scene.client = scene.stage.client()
        yield scene


# -- rows: how one can look --------------------------------------------------------------------------


def _texts(client: Loopback) -> list[str]:
    """The payloads that came, batches message by message."""
    found: list[str] = []
    for heard in client.take():
        if isinstance(heard, Delivery):
            parts = split_entry(heard.entry)
            if count := parts.metadata.num_messages_in_batch:
                batched = parts.metadata.HasField("num_messages_in_batch")
                singles = split_batch(parts.payload, count) if batched else ()
                found += [one.payload.decode() for one in singles] or [parts.payload.decode()]
    return found


def _consumed(sub_type: Any, **fields: Any) -> Callable[[Scene], list[str]]:
    def seen(scene: Scene) -> list[str]:
        client = scene.stage.client()
        fields.setdefault("initialPosition", pb.CommandSubscribe.Earliest)
        assert not error_of(subscribe(scene.stage, client, "new", sub_type, permits=1000, **fields))
        return _texts(client)

    return seen


def _compacted(scene: Scene) -> list[str]:
    assert scene.web("PUT t/compaction").status == 204
    scene.stage.turn()
    assert scene.web("GET t/compaction").json["status"] == "SUCCESS"
    earliest = wire_id(-1, -1)
    read = _consumed(EXCLUSIVE, durable=False, read_compacted=True, start_message_id=earliest)
    return read(scene)


def _last_of_each_key(scene: Scene) -> list[str]:
    last = {one.key: one.text.split("/")[0] for one in scene.committed if one.key}
    return [
        one.text for one in scene.committed if one.key and last[one.key] == one.text.split("/")[0]
    ]


def _payload(body: bytes, headers: dict[str, str]) -> list[str]:
    count = int(headers.get("x-pulsar-num-batch-message", 0))
    if not count:
        return [body.decode()]
    return [one.payload.decode() for one in split_batch(body, count)]


def _peeked(scene: Scene) -> list[str]:
    found: list[str] = []
    for number in range(1, scene.end_entry + 1):
        answer = scene.web(f"GET t/subscription/s/position/{number}")
        assert answer.status in (200, 404), answer
        if answer.status == 200:
            found += _payload(answer.body, answer.headers)
    return found


def _examined(edge: str) -> Callable[[Scene], list[str]]:
    def seen(scene: Scene) -> list[str]:
        found: list[list[str]] = []
        for number in range(1, scene.end_entry + 1):
            line = f"GET t/examinemessage?initialPosition={edge}&messagePosition={number}"
            answer = scene.web(line)
            assert answer.status in (200, 412), answer
            if answer.status == 412:
                return []
            one = _payload(answer.body, answer.headers)
            if found and found[-1] == one:  # the farthest again
                break
            found.append(one)
        return [text for one in (found if edge == "earliest" else found[::-1]) for text in one]

    return seen


def _by_id(scene: Scene) -> list[str]:
    found: list[str] = []
    for entry_id in range(scene.end_entry):
        answer = scene.web(f"GET t/ledger/1/entry/{entry_id}")
        assert answer.status in (200, 404), answer
        if answer.status == 200:
            found += _payload(answer.body, answer.headers)
    return found


def _indexes_by_id(scene: Scene) -> list[int]:
    found: list[int] = []
    for entry_id in range(scene.end_entry):
        answer = scene.web(f"GET t/getIndexByMessageId?ledgerId=1&entryId={entry_id}")
        if answer.status == 200:
            found += range(answer.json["entryFirstIndex"], answer.json["entryLastIndex"] + 1)
    return found


def _by_index(scene: Scene) -> list[int]:
    """For each index the entry of the message at it or behind it; -1 where there is none."""
    found: list[int] = []
    for index in range(scene.end_index):
        answer = scene.web(f"GET t/getMessageIdByIndex?index={index}")
        assert answer.status in (200, 404), answer
        found.append(answer.json["entryId"] if answer.status == 200 else -1)
    return found


def _entry_at_or_behind(scene: Scene) -> list[int]:
    return [
        next((one.entry_id for one in scene.committed if one.index >= index), -1)
        for index in range(scene.end_index)
    ]


def _by_time(scene: Scene) -> int:
    return int(scene.web("GET t/messageid/1").json["entryId"])


def _first_entry_or_next(scene: Scene) -> int:
    """Without a message: where the next one will be, which is behind all or where one is kept back."""
    if scene.committed:
        return scene.committed[0].entry_id
    return scene.end_entry


def _last_by_rest(scene: Scene) -> int:
    return int(scene.web("GET t/lastMessageId").json["entryId"])


def _last_by_wire(scene: Scene) -> int:
    client = scene.stage.client()
    subscribe(scene.stage, client, "asks", durable=False)
    reply = request(scene.stage, client, pb.CommandGetLastMessageId(consumer_id=0))
    entry_id = int(reply.last_message_id.entryId)
    return entry_id - 2**64 if entry_id >= 2**63 else entry_id


def _last_entry(scene: Scene) -> int:
    return scene.committed[-1].entry_id if scene.committed else -1


def _terminated(scene: Scene) -> int:
    return int(scene.web("POST t/terminate").json["entryId"])


def _stats(scene: Scene) -> Any:
    found = scene.web("GET t/stats").json["subscriptions"]["s"]
    return found["msgBacklog"], found["messagesBacklog"], found["messagesReady"]


def _internal_stats(scene: Scene) -> Any:
    cursor = scene.web("GET t/internalStats").json["cursors"]["s"]
    return cursor["numberOfEntriesSinceFirstNotAckedMessage"]


def _backlog_size(scene: Scene) -> bool:
    """Bytes of a backlog, of the subscription and of the topic: nothing where there is none."""
    found = scene.web("GET t/stats").json
    sizes = {found["backlogSize"], found["subscriptions"]["s"]["backlogSize"]}
    assert len(sizes) == 1, found
    return sizes != {0}


def _analyzed(scene: Scene) -> Any:
    found = scene.web("POST t/subscription/s/analyzeBacklog").json
    first, last = found.get("firstMessageId"), found.get("lastMessageId")
    return found["entries"], found["messages"], found["markerMessages"], first, last


def _analysis(scene: Scene) -> Any:
    entries = scene.entries
    edges = (f"1:{entries[0]}", f"1:{entries[-1]}") if entries else (None, None)
    return len(entries), len(scene.committed), 0, *edges


def _progress(scene: Scene) -> Any:
    scene.stage.clock.advance(1)
    subscription = scene.stage.topic().subscriptions["s"]
    now_ms = scene.stage.clock.wall_ms()
    line = scene.stage.here(lambda: progress_of(subscription, now_ms))
    return line.backlog, line.ready, line.inflight, line.behind_ms > 0


def _metrics(scene: Scene) -> Any:
    text = scene.web("GET /metrics").body.decode()
    found = re.search(r'^pulsar_subscription_back_log\{.*subscription="s".*\} (\S+)$', text, re.M)
    assert found is not None
    return float(found[1])


def _skipped(line: str) -> Callable[[Scene], Any]:
    def seen(scene: Scene) -> Any:
        (would,) = scene.web(f"POST t/subscription/s/{line}?dryRun=true").json
        assert scene.web(f"POST t/subscription/s/{line}").status == 204
        return would["messages"], scene.stage.topic().subscriptions["s"].cursor.backlog

    return seen


def _skipped_entries(scene: Scene) -> Any:
    count = 1 if scene.entries else 0
    skipped = [one for one in scene.committed if one.entry_id in scene.entries[:1]]
    assert bool(count) == bool(skipped)
    return len(skipped), len(scene.committed) - len(skipped)


def _expired(scene: Scene) -> Any:
    scene.stage.clock.advance(5)
    return _skipped("expireMessages/1")(scene)


def _reset_to_last(scene: Scene) -> Any:
    subscription = scene.stage.topic().subscriptions["s"]
    subscription.skip(subscription.cursor.end)
    (move,) = scene.stage.here(lambda: decide([subscription], Reset(Target(last=1))))
    return move.redelivered


class Row(NamedTuple):
    name: str
    seen: Callable[[Scene], Any]
    expected: Callable[[Scene], Any]


def _all(scene: Scene) -> list[str]:
    return [one.text for one in scene.committed]


ROWS = (
    Row("Exclusive consumer", _consumed(EXCLUSIVE), _all),
    Row("Failover consumer", _consumed(FAILOVER), _all),
    Row("Shared consumer", _consumed(SHARED), _all),
    Row("Key_Shared consumer", _consumed(KEY_SHARED), _all),
    Row("reader", _consumed(EXCLUSIVE, durable=False, start_message_id=wire_id(-1, -1)), _all),
    Row("compacted reader, table view", _compacted, _last_of_each_key),
    Row("peek", _peeked, _all),
    Row("examine-messages from the earliest", _examined("earliest"), _all),
    Row("examine-messages from the latest", _examined("latest"), _all),
    Row("get-message-by-id", _by_id, _all),
    Row("index by id", _indexes_by_id, lambda scene: [one.index for one in scene.committed]),
    Row("id by index (PIP-415)", _by_index, _entry_at_or_behind),
    Row("id by time", _by_time, _first_entry_or_next),
    Row("last message id, REST", _last_by_rest, _last_entry),
    Row("last message id, wire", _last_by_wire, _last_entry),
    Row("terminate", _terminated, _last_entry),
    Row(
        "stats: backlog",
        _stats,
        lambda scene: (len(scene.entries), len(scene.committed), len(scene.committed)),
    ),
    Row("stats: backlog size", _backlog_size, lambda scene: bool(scene.committed)),
    Row("internal stats", _internal_stats, lambda scene: len(scene.entries)),
    Row("analyze-backlog", _analyzed, _analysis),
    Row(
        "progress",
        _progress,
        lambda scene: (len(scene.committed), len(scene.committed), 0, bool(scene.committed)),
    ),
    Row("metrics", _metrics, lambda scene: len(scene.committed)),
    Row("skip", _skipped("skip/1"), _skipped_entries),
    Row("clear-backlog", _skipped("skip_all"), lambda scene: (len(scene.committed), 0)),
    Row("expire-messages", _expired, lambda scene: (len(scene.committed), 0)),
    Row("reset to the last messages", _reset_to_last, lambda scene: min(len(scene.committed), 1)),
)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_only_committed_messages_are_seen(row: Row, scene: Scene) -> None:
    assert row.seen(scene) == row.expected(scene)


# -- what goes by numbers of the log -----------------------------------------------------------------


@pytest.fixture
def held(make_stage: Callable[..., Stage]) -> Scene:
    """Everything that can be seen is acked; a transaction is open, and its message is old."""
    scene = Scene(make_stage())
    open_one(scene)
    subscription = scene.stage.topic().subscriptions["s"]
    subscription.skip(subscription.cursor.end)
    scene.stage.clock.advance(60)
    return scene


def test_an_open_transaction_is_in_no_backlog_quota(held: Scene) -> None:
    topic, now_ms = held.stage.topic(), held.stage.clock.wall_ms()
    quota = Quota(1, HOLD)
    topic.policies = replace(topic.policies, quota_size=quota, quota_time=quota)
    assert backlog_quota.exceeded(topic, now_ms) is None
    held.end("one", pb.COMMIT)
    assert backlog_quota.exceeded(topic, now_ms) is not None


def test_what_is_never_shown_is_no_part_of_the_pace(held: Scene) -> None:
    """A subscription that keeps up is not called slow because markers and aborted messages came."""
    subscription = held.stage.topic().subscriptions["s"]
    sample(subscription, 0)
    held.end("one", pb.ABORT)
    sample(subscription, 10_000)
    assert subscription.samples.recent().messages_in == 1  # the one behind the transaction


def test_a_reset_to_an_id_behind_an_open_transaction_is_refused(
    make_stage: Callable[..., Stage],
) -> None:
    """The subscription would stand before the id, and get what it was to pass over when the transaction
    ends. A reset to the first message that is held back, or to one before it, is exact."""
    scene = Scene(make_stage())
    scene.single("a")  # index 0
    scene.open("one")
    scene.single("b", "one")
    scene.single("c")
    scene.single("d")
    subscription = scene.stage.topic().subscriptions["s"]

    def index_of_reset(index: int, *, after: bool) -> int | str:
        target = Target(id=MessageId.parse(str(subscription.topic.log.locate(index).position)))
        reset = Reset(target, after=after)
        try:
            moves: list[Move] = scene.stage.here(lambda: decide([subscription], reset))
        except IndexNotFound as error:
            return HELD if "an open transaction holds it back" in str(error) else str(error)
        return moves[0].to

    def resets(*, after: bool) -> list[int | str]:
        return [index_of_reset(index, after=after) for index in range(4)]

    assert resets(after=False) == [0, 1, HELD, HELD]
    assert resets(after=True) == [1, HELD, HELD, HELD]
    scene.end("one", pb.COMMIT)
    assert resets(after=False) == [0, 1, 2, 3]
    assert resets(after=True) == [1, 2, 3, 4]


def test_the_table_of_the_docs_has_these_rows_and_columns() -> None:
    lines = [line for line in DOCS.read_text().splitlines() if line.startswith("|")]
    table = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    at = next(number for number, cells in enumerate(table) if cells[0] == "who looks")
    assert table[at][1:] == list(COLUMNS)
    rows = list(itertools.takewhile(lambda cells: len(cells) == len(table[at]), table[at + 2 :]))
    names = [row.name for row in (*ROWS, *test_pip31_client.ROWS)]
    assert sorted(cells[0] for cells in rows) == sorted([*names, *SPARK_ROWS])
