"""Chunked messages of transactions: each belongs to one, whole, whatever lies between its chunks."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from stage.frames import chunk, message
from stage.stage import Stage
from stage.talk import EXCLUSIVE, FAILOVER, KEY_SHARED, SHARED, error_of, wire_id
from stage.transactions import (
    ABORT,
    COMMIT,
    ack_in,
    add_subscription,
    add_topics,
    bodies,
    bodies_of,
    counts,
    end,
    new,
    started,
    within,
)

from milepost.positions import TxnId
from milepost.testing.peer import Loopback


@pytest.fixture
def stage() -> Iterator[Stage]:
    with Stage() as one:
        yield one


def writing(stage: Stage, client: Loopback) -> TxnId:
    """A transaction that may write to the topic."""
    txn = new(stage, client)
    assert not error_of(add_topics(stage, client, txn))
    return txn


def sent(stage: Stage, client: Loopback, *frames: bytes) -> list[str]:
    """The kinds of answers to what is sent."""
    client.take()
    client.say(*frames)
    stage.turn()
    return [type(one).__name__ for one in client.take()]


def bits(txn: TxnId | None) -> dict[str, int]:
    return {} if txn is None else within(txn)


class TestInterleaved:
    @pytest.mark.parametrize("sub_type", [EXCLUSIVE, FAILOVER, SHARED, KEY_SHARED])
    @pytest.mark.parametrize("first_end", [COMMIT, ABORT])
    @pytest.mark.parametrize("restarts", [False, True])
    def test_each_comes_whole_or_not_at_all(
        self, stage: Stage, sub_type: Any, first_end: Any, restarts: bool
    ) -> None:
        client = started(stage, sub_type=sub_type)
        one, two = writing(stage, client), writing(stage, client)
        frames = [
            chunk(0, 0, 2, **within(one)),
            chunk(1, 0, 2, **within(two)),
            message(2, **within(one)),
            chunk(3, 0, 2),
            chunk(0, 1, 2, **within(one)),
            message(4, **within(two)),
            chunk(1, 1, 2, **within(two)),
            chunk(3, 1, 2),
        ]
        assert sent(stage, client, *frames) == ["Receipt"] * 8
        if restarts:
            stage = stage.restarted()
            client = started(stage, sub_type=sub_type)
        assert not error_of(end(stage, client, one, first_end))
        second_end = ABORT if first_end == COMMIT else COMMIT
        assert not error_of(end(stage, client, two, second_end))
        stage.turn()
        kept = ["0/0", "0/1", "2"] if first_end == COMMIT else ["1/0", "1/1", "4"]
        assert sorted(bodies(client)) == sorted([*kept, "3/0", "3/1"])
        assert counts(stage).ready == 0

    def test_an_ack_in_a_transaction_covers_all_chunks(self, stage: Stage) -> None:
        client = started(stage, sub_type=SHARED)
        one = writing(stage, client)
        sent(
            stage, client, chunk(0, 0, 2, **within(one)), message(1), chunk(0, 1, 2, **within(one))
        )
        assert not error_of(end(stage, client, one))
        acker = new(stage, client)
        assert not error_of(add_subscription(stage, client, acker))
        assert not error_of(ack_in(stage, client, acker, wire_id(1, 2)))
        assert not error_of(end(stage, client, acker))
        assert counts(stage).acked == 3  # the chunks and the marker


class TestPartly:
    """A message whose chunks would be of several transactions is refused at the first that differs."""

    @pytest.mark.parametrize("restarts", [False, True])
    @pytest.mark.parametrize(("first", "then"), [("one", "two"), ("one", None), (None, "one")])
    def test_a_chunk_of_another_is_refused(
        self, stage: Stage, first: str | None, then: str | None, restarts: bool
    ) -> None:
        client = started(stage)
        known = {"one": writing(stage, client), "two": writing(stage, client), None: None}
        assert sent(stage, client, chunk(0, 0, 3, **bits(known[first]))) == ["Receipt"]
        if restarts:
            stage = stage.restarted()
            client = started(stage)
        assert sent(stage, client, chunk(0, 1, 3, **bits(known[then]))) == ["CommandSendError"]
        # It was no harm to the message, nor to others.
        rest = [chunk(0, number, 3, **bits(known[first])) for number in (1, 2)]
        client.say(*rest, message(1))
        stage.turn()
        for txn in (known["one"], known["two"]):
            assert txn is not None
            assert not error_of(end(stage, client, txn))
        stage.turn()
        came = client.take()
        assert [type(one).__name__ for one in came].count("Receipt") == 3
        assert bodies_of(came) == ["0/0", "0/1", "0/2", "1"]

    def test_one_that_is_stored_in_another_is_no_duplicate(self, stage: Stage) -> None:
        """Answered with a receipt it would be missing from the second transaction."""
        client = started(stage)
        one, two = writing(stage, client), writing(stage, client)
        sent(stage, client, *[chunk(0, number, 3, **within(one)) for number in range(2)])
        assert sent(stage, client, chunk(0, 1, 3, **within(one))) == ["Receipt"]
        assert sent(stage, client, chunk(0, 1, 3, **within(two))) == ["CommandSendError"]

    def test_the_message_may_begin_anew_in_another(self, stage: Stage) -> None:
        client = started(stage)
        one, two = writing(stage, client), writing(stage, client)
        sent(stage, client, chunk(0, 0, 2, **within(one)))
        assert not error_of(end(stage, client, one, ABORT))
        frames = [chunk(0, number, 2, **within(two)) for number in range(2)]
        assert sent(stage, client, *frames) == ["Receipt"] * 2
        assert not error_of(end(stage, client, two))
        stage.turn()
        assert bodies(client) == ["0/0", "0/1"]


@pytest.mark.parametrize("action", [COMMIT, ABORT])
def test_what_an_ended_transaction_left_unfinished_counts_no_more(action: Any) -> None:
    """It can never be finished, so it must not keep the producer from its next chunked message."""
    with Stage(max_pending_chunked_messages_per_producer=1) as stage:
        client = started(stage)
        for sequence_id in range(3):
            txn = writing(stage, client)
            assert sent(stage, client, chunk(sequence_id, 0, 2, **within(txn))) == ["Receipt"]
            assert not error_of(end(stage, client, txn, action))
        assert stage.topic().chunked.unfinished_count == 0


@pytest.mark.parametrize("action", [COMMIT, ABORT])
def test_nor_does_it_after_a_restart(action: Any) -> None:
    with Stage(max_pending_chunked_messages_per_producer=1) as stage:
        client = started(stage)
        ended, still_open = writing(stage, client), writing(stage, client)
        assert sent(stage, client, chunk(0, 0, 2, **within(ended))) == ["Receipt"]
        assert not error_of(end(stage, client, ended, action))
        assert sent(stage, client, chunk(1, 0, 2, **within(still_open))) == ["Receipt"]
        stage = stage.restarted()
        client = started(stage)
        # The chunk lets the broker look for what was stored before the restart.
        assert sent(stage, client, chunk(1, 1, 2, **within(still_open))) == ["Receipt"]
        assert stage.topic().chunked.unfinished_count == 0
        assert not error_of(end(stage, client, still_open))
        stage.turn()
        assert bodies(client)[-2:] == ["1/0", "1/1"]
