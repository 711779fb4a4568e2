"""Which worker has a topic: the same for ever, a topic with all that belongs to it, about as many each."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from milepost.broker.workers.placement import Address, ClusterPlacement, Placement, shard_of
from milepost.errors import ServiceNotReady
from milepost.positions.names import TopicName
from milepost.storage.cluster import owners
from milepost.storage.cluster.notice import Notice, Seat


def placement(own: int, count: int) -> Placement:
    return Placement(own, tuple(Address(6650 + n, -1, 7650 + n) for n in range(count)))


def test_the_shard_of_a_name_is_written_down_and_never_another() -> None:
    """A directory's topics are where this said they would be: another answer would lose them."""
    names = ["orders", "acme/shop/clicks", "non-persistent://public/default/orders", "ü%2F"]
    found = {
        count: [shard_of(TopicName.parse(one), count) for one in names] for count in (2, 3, 64)
    }
    assert found == {2: [1, 0, 1, 0], 3: [1, 0, 1, 0], 64: [34, 18, 34, 12]}


def test_partitions_and_both_domains_are_where_the_topic_is() -> None:
    for number in range(50):
        base = TopicName.parse(f"acme/shop/t{number}")
        parts = [base.partition_name(one) for one in range(5)]
        other = TopicName.parse(f"non-persistent://acme/shop/t{number}")
        assert len({shard_of(one, 7) for one in (base, other, *parts)}) == 1


def test_topics_are_shared_out_evenly() -> None:
    counts = Counter(shard_of(TopicName.parse(f"orders-{number}"), 8) for number in range(8000))
    assert set(counts) == set(range(8))
    assert max(counts.values()) < 1.5 * min(counts.values())


def test_a_topic_of_another_worker_is_refused_so_that_its_client_looks_again() -> None:
    name = TopicName.parse("orders")
    owner = shard_of(name, 4)
    assert placement(owner, 4).has(name)
    placement(owner, 4).check(name)
    other = placement((owner + 1) % 4, 4)
    with pytest.raises(ServiceNotReady, match=f"orders is served by worker {owner}: look it up"):
        other.check(name)
    assert other.address_of(name).port == 6650 + owner
    assert owner in other.others
    assert other.own not in other.others


def test_each_worker_finds_a_name_that_is_its_own() -> None:
    name = TopicName.parse("pulsar/system/healthcheck")
    found = [placement(number, 16).own_name(name) for number in range(16)]
    assert [shard_of(one, 16) for one in found] == list(range(16))
    assert found[shard_of(name, 16)] == name


def test_a_shard_of_a_cluster_is_looked_up_and_may_be_without_a_broker(tmp_path: Path) -> None:
    address = Address(6650, -1, 7650)
    here = ClusterPlacement(0, 3, "one", address, tmp_path)
    assert here.address(0) == address
    assert here.near == [0]
    assert [here.is_served(shard) for shard in range(3)] == [True, False, False]
    with pytest.raises(ServiceNotReady, match="shard 2 has no broker"):
        here.link_of(2)
    seats = {0: Seat(1, "h", 6650, -1, 7650), 1: Seat(1, "h", 6651, -1, 7651)}
    one = Notice("one", "h", "m", 1, 1, 9, "", "", "", False, seats)
    two = one._replace(broker="two", shards={2: Seat(4, "i", 6652, 6653, 7652)})
    owners.write(tmp_path, [two, one])
    assert here.address(2) == Address(6652, 6653, 7652, "i")
    assert here.link_of(2) == ("i", 7652, 4)
    assert here.near == [0, 1]
    assert here.is_served(2)
    assert here.is_served_by(2, "two")
    assert not here.is_served_by(2, "one")
    assert here.owner(2).seat.epoch == 4
    assert here.others == [1, 2]
    assert [each.broker for each in here.brokers] == ["one", "two"]
