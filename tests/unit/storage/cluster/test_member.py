"""A broker of a cluster: what it claims, gives away and leaves alone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

import pytest
from stage.board import looked

from milepost.storage.bucket.manifest import first_manifest
from milepost.storage.bucket.objects import Failed, Get, Steps
from milepost.storage.cluster.document import shard_prefix
from milepost.storage.cluster.member import (
    ATTEMPTS,
    NOTICE_MAX,
    OFFER_S,
    PAUSE_S,
    SHUNNED_S,
    Close,
    Drop,
    Give,
    Member,
    Open,
    Order,
    manifest_read,
)
from milepost.storage.cluster.notice import Notice, Seat
from milepost.testing.bucket import MemoryBucket

T = TypeVar("T")


def made(bucket: MemoryBucket, steps: Steps[T]) -> T:
    reply = None
    while True:
        try:
            request = steps.send(reply)  # type: ignore[arg-type]
        except StopIteration as end:
            value: T = end.value
            return value
        reply = bucket.fault(request) or bucket.apply(request)


def member(name: str, shards: int = 4) -> Member:
    return Member(Notice(name, "h", "m", 1, 0, 9, "", "", "", False, {}), shards)


def decided(bucket: MemoryBucket, one: Member) -> Sequence[Order]:
    return one.decided({shard: made(bucket, manifest_read(shard)) for shard in one.free()})


def turn(bucket: MemoryBucket, one: Member, now: float = 0.0) -> Sequence[Order]:
    assert made(bucket, one.said(now))
    assert made(bucket, looked(one, lambda: now))
    orders = decided(bucket, one)
    assert made(bucket, one.said(now))
    return orders


def open_all(one: Member, orders: Sequence[Order]) -> None:
    for order in orders:
        assert isinstance(order, Open)
        one.opened(order.shard, Seat(order.epoch + 1, "h", 1, -1, 2))


def test_the_first_broker_claims_all_and_gives_half_to_the_second() -> None:
    bucket, first, second = MemoryBucket(), member("a"), member("b")
    orders = turn(bucket, first)
    assert orders == [Open(shard, 0) for shard in range(4)]
    assert turn(bucket, first) == []
    open_all(first, orders)
    assert turn(bucket, second) == []
    assert turn(bucket, first) == [Give(3, "b")]
    assert turn(bucket, first) == [], "one at a time"
    fetch(first, second, 3)
    assert turn(bucket, second) == []
    assert turn(bucket, first) == [Give(2, "b")]
    fetch(first, second, 2)
    assert turn(bucket, second) == []
    assert turn(bucket, first) == []
    assert sorted(second.notice.shards) == [2, 3]


def fetch(owner: Member, other: Member, shard: int) -> None:
    """A shard moves."""
    assert other.asked(shard) is None
    other.opened(shard, Seat(2, "h", 1, -1, 2))
    owner.ended(shard, 0.0)


def two(bucket: MemoryBucket, shards: int = 4) -> tuple[Member, Member]:
    """A broker that has all shards, and one that has none and has said so."""
    first, second = member("a", shards), member("b", shards)
    open_all(first, turn(bucket, first))
    turn(bucket, second)
    return first, second


def test_a_shard_that_is_not_fetched_in_time_is_given_back_for_any_to_claim() -> None:
    bucket = MemoryBucket()
    first, second = two(bucket)
    assert turn(bucket, first, 1.0) == [Give(3, "b")]
    turn(bucket, second, 1.0)
    assert turn(bucket, first, OFFER_S) == []
    turn(bucket, second, 2.0)
    assert turn(bucket, first, OFFER_S + 1.0) == [Close(3)]
    assert turn(bucket, first, OFFER_S + 1.0) == []


def test_a_shard_that_another_broker_declines_is_given_back_at_once() -> None:
    bucket = MemoryBucket()
    first, _ = two(bucket)
    assert turn(bucket, first, 1.0) == [Give(3, "b")]
    first.declined(3)
    first.declined(0)  # it was not asked for
    assert turn(bucket, first, 1.0) == [Close(3)]


def test_a_broker_that_is_asked_for_what_it_cannot_fetch_says_why() -> None:
    bucket = MemoryBucket()
    first, second = two(bucket)
    assert first.asked(2) == "broker a has shard 2, or is about to"
    assert second.asked(4) == "there is no shard 4: they are numbered from 0 to 3"
    assert second.asked(-1) == "there is no shard -1: they are numbered from 0 to 3"
    assert second.asked(2) is None
    assert second.asked(2) == "broker b has shard 2, or is about to"
    second.leave()
    assert second.asked(3) == "broker b is about to end"


def test_a_shard_that_could_not_be_fetched_is_not_shunned() -> None:
    bucket = MemoryBucket()
    _, second = two(bucket)
    for _ in range(ATTEMPTS):
        assert second.asked(3) is None
        second.ended(3, 0.0)
    turn(bucket, second)
    assert second.notice.shunned == ()


def test_a_shard_whose_process_died_is_claimed_again_by_its_own_broker() -> None:
    """Its manifest names a living owner, so that no other broker claims it, also one with fewer shards."""
    bucket = MemoryBucket()
    first, second = two(bucket, 2)
    assert turn(bucket, first) == [Give(1, "b")]
    fetch(first, second, 1)
    turn(bucket, second)
    bucket.objects[shard_prefix(1) + "manifest"] = (
        first_manifest("c", "b", "00")._replace(epoch=2).encode()
    )
    third = member("A", 2)
    turn(bucket, third)
    turn(bucket, first)
    second.ended(1, 0.0)
    made(bucket, second.said(0.0))
    assert turn(bucket, third) == []
    assert turn(bucket, second) == [Open(1, 2)]


def test_a_shard_that_was_given_back_is_not_claimed_again_by_its_last_broker() -> None:
    bucket = MemoryBucket()
    first, second = two(bucket, 2)
    turn(bucket, member("c", 2))
    assert turn(bucket, first) == [Give(1, "b")]
    first.declined(1)
    assert turn(bucket, first) == [Close(1)]
    bucket.objects[shard_prefix(1) + "manifest"] = first_manifest("c", "", "00").encode()
    first.ended(1, 0.0)
    assert turn(bucket, first) == []
    assert turn(bucket, second) == [Open(1, 1)]


def test_what_an_operator_has_moved_stays() -> None:
    bucket = MemoryBucket()
    first, second = two(bucket, 3)
    assert turn(bucket, first, 0.0) == [Give(2, "b")]
    fetch(first, second, 2)
    turn(bucket, second)
    assert first.asked(2, stays=True) is None
    first.opened(2, Seat(3, "h", 1, -1, 2))
    second.ended(2, 0.0)
    turn(bucket, second)
    assert turn(bucket, first) == [Give(1, "b")], "another one goes"
    fetch(first, second, 1)
    turn(bucket, second)
    assert turn(bucket, first) == []


def loaded(name: str, loads: dict[int, float], *, by_load: bool = True) -> Member:
    notice = Notice(name, "h", "m", 1, 0, 9, "", "", "", False, {})
    return Member(notice, 5, lambda: loads, by_load=by_load)


def seated(bucket: MemoryBucket, *brokers: tuple[Member, tuple[int, ...]]) -> None:
    """Brokers that serve shards, and have said so."""
    for one, shards in brokers:
        for shard in shards:
            one.opened(shard, Seat(1, "h", 1, -1, 2))
        made(bucket, one.said(0.0))


@pytest.mark.parametrize("by_load", [True, False])
def test_a_broker_that_carries_much_more_gives_a_shard_away(by_load: bool) -> None:
    bucket = MemoryBucket()
    loads = {0: 0.7, 1: 0.5}
    first, second = loaded("a", loads, by_load=by_load), member("b", 5)
    seated(bucket, (first, (0, 1)), (second, (2, 3, 4)))
    if not by_load:
        assert turn(bucket, first) == []
        return
    assert turn(bucket, first) == [Give(1, "b")]
    fetch(first, second, 1)
    turn(bucket, second)
    assert turn(bucket, first) == []
    assert turn(bucket, second) == [], "the new owner knows what was said of its load"


def test_under_load_a_broker_gives_one_shard_in_a_while() -> None:
    bucket = MemoryBucket()
    loads = {0: 0.3, 1: 0.3, 2: 0.3}
    first, second, third = loaded("a", loads), member("b", 5), member("c", 5)
    seated(bucket, (first, (0, 1, 2)), (second, (3,)), (third, (4,)))
    assert turn(bucket, first, 1.0) == [Give(2, "b")]
    fetch(first, second, 2)
    turn(bucket, second)
    assert turn(bucket, first, 2.0) == []
    turn(bucket, second)
    turn(bucket, third)
    assert turn(bucket, first, 1.0 + PAUSE_S) == [Give(1, "c")]


def test_a_broker_that_leaves_has_its_shards_fetched_by_those_with_the_fewest() -> None:
    bucket = MemoryBucket()
    first, _ = two(bucket)
    turn(bucket, member("c"))
    first.leave()
    assert turn(bucket, first) == [Give(0, "b"), Give(1, "c"), Give(2, "b"), Give(3, "c")]
    first.declined(1)
    assert turn(bucket, first) == [Close(1)]


def test_a_shard_whose_manifest_has_a_living_owner_is_left_alone() -> None:
    """The notice that was read may be older than the claim."""
    bucket, one, other = MemoryBucket(), member("a", 1), member("b", 1)
    turn(bucket, other)
    bucket.objects[shard_prefix(0) + "manifest"] = first_manifest("c", "b", "00").encode()
    bucket.objects["board/b"] = other.notice._replace(shards={}).encode()
    assert turn(bucket, one) == []
    one.board.refused("b")
    assert decided(bucket, one) == [Open(0, 1)]


def test_a_shard_that_another_claimed_later_is_dropped_at_once() -> None:
    bucket, one, other = MemoryBucket(), member("a", 1), member("b", 1)
    one.opened(0, Seat(3, "h", 1, -1, 2))
    other.opened(0, Seat(4, "h", 1, -1, 2))
    turn(bucket, other)
    assert turn(bucket, one) == [Drop(0)]
    assert turn(bucket, other) == []


def test_a_broker_that_leaves_closes_all_and_claims_nothing() -> None:
    bucket, one = MemoryBucket(), member("a", 2)
    open_all(one, turn(bucket, one))
    one.leave()
    assert turn(bucket, one) == [Close(0), Close(1)]
    assert turn(bucket, one) == []
    one.ended(0, 0.0)
    assert not one.has_left
    one.ended(1, 0.0)
    assert one.has_left
    assert turn(bucket, one) == []
    made(bucket, one.gone())
    assert "board/a" not in bucket.objects


def test_a_shard_that_cannot_be_opened_is_left_to_another_broker() -> None:
    bucket, one, other = MemoryBucket(), member("a", 1), member("b", 1)
    for _ in range(ATTEMPTS):
        assert turn(bucket, one) == [Open(0, 0)]
        one.ended(0, 10.0)
    bucket.objects[shard_prefix(0) + "manifest"] = first_manifest("c", "a", "00").encode()
    assert turn(bucket, one, 11.0) == []
    assert turn(bucket, other, 11.0) == [Open(0, 1)]
    other.ended(0, 11.0)
    made(bucket, other.gone())
    assert turn(bucket, one, 10.0 + SHUNNED_S) == [Open(0, 1)]


def test_a_board_that_cannot_be_read_decides_nothing() -> None:
    bucket, one = MemoryBucket(), member("a")
    turn(bucket, member("b"))
    bucket.fault = lambda request: Failed("no") if isinstance(request, Get) else None
    assert not made(bucket, looked(one, lambda: 0.0))


def test_a_broker_claims_what_it_was_the_last_to_own_also_after_its_agent_was_started_again() -> (
    None
):
    """Another broker with fewer shards comes first, and leaves the shard to its living owner: both would
    wait for each other for ever."""
    bucket, other = MemoryBucket(), member("b", 3)
    seats = {shard: Seat(1, "h", 1, -1, 2) for shard in (0, 1)}
    for shard in range(3):
        key = shard_prefix(shard) + "manifest"
        bucket.objects[key] = first_manifest("c", "a", "00").encode()
    one = Member(Notice("a", "h", "m", 1, 0, 9, "", "", "", False, seats), 3)
    assert made(bucket, one.said(0.0))
    assert turn(bucket, other) == []
    assert turn(bucket, one) == [Open(2, 1)]


def test_a_manifest_of_a_later_release_is_left_alone_and_the_others_are_claimed(
    caplog: pytest.LogCaptureFixture,
) -> None:
    bucket, one = MemoryBucket(), member("a", 2)
    bucket.objects[shard_prefix(0) + "manifest"] = b'{"format": 2}'
    assert turn(bucket, one) == [Open(1, 0)]
    assert turn(bucket, one) == []
    assert caplog.text.count("shard 0 is left alone: the bucket's manifest has format 2") == 1


def test_the_shards_of_a_broker_whose_notice_is_of_a_newer_format_are_left_alone(
    caplog: pytest.LogCaptureFixture,
) -> None:
    bucket, old = MemoryBucket(), member("old")
    for shard in range(3):
        newer = first_manifest("c", "new", "00")
        bucket.objects[shard_prefix(shard) + "manifest"] = newer.encode()

    def beat(number: int) -> None:
        bucket.objects["board/new"] = b'{"format": 2, "beat": %d}' % number

    beat(0)
    assert turn(bucket, old) == [Open(3, 0)], "the one that has no owner"
    open_all(old, [Open(3, 0)])
    for second in range(1, 20):
        beat(second)
        assert turn(bucket, old, second) == []
    assert sum("broker new cannot be read" in one.message for one in caplog.records) == 1
    for second in range(20, 23):
        assert turn(bucket, old, second) == [], "it may be slow"
    orders = [order for second in range(23, 26) for order in turn(bucket, old, second)]
    assert orders == [Open(shard, 1) for shard in range(3)], "it is dead"


def test_a_broker_beside_one_of_a_newer_format_that_has_all_shards_stands_by() -> None:
    bucket, old = MemoryBucket(), member("old")
    for shard in range(4):
        newer = first_manifest("c", "new", "00")
        bucket.objects[shard_prefix(shard) + "manifest"] = newer.encode()
    bucket.objects["board/new"] = b'{"format": 2}'
    assert turn(bucket, old) == []
    assert old.stands_by


def test_a_copy_of_a_notice_below_another_name_is_no_broker(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """It does not change: the broker that it names would be dead by it, and lose shards and notice."""
    bucket, first, second = MemoryBucket(), member("a"), member("b")
    open_all(first, turn(bucket, first))
    for copy in ("board/a.bak", "board/A"):  # behind the notice in a list, and before it
        bucket.objects[copy] = bucket.objects["board/a"]
    for now in range(80):
        assert made(bucket, first.said(now))
        assert turn(bucket, second, now) == []
        assert set(second.board.living()) == {"a"}
    assert "board/a" in bucket.objects
    assert "board/a.bak" in bucket.objects, "it is not of a broker"
    assert "a.bak cannot be read" in caplog.text


def test_what_is_too_large_for_a_notice_is_not_read(caplog: pytest.LogCaptureFixture) -> None:
    """It would take longer than a look may, and no broker would ever claim a shard."""
    bucket, one = MemoryBucket(), member("a")
    bucket.objects["board/backup.tar"] = bytes(NOTICE_MAX + 1)
    assert len(turn(bucket, one)) == 4
    assert turn(bucket, one, 1.0) == []
    assert Get("board/backup.tar") not in bucket.requests
    assert caplog.text.count("board/backup.tar is no notice: it has 1048577 bytes") == 1
