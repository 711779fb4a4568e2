"""Brokers that an operator names to move shards to."""

from __future__ import annotations

import asyncio
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from milepost.broker.broker import Broker
from milepost.broker.workers import moves
from milepost.broker.workers.moves import arrived, broker_named
from milepost.broker.workers.placement import Address, ClusterPlacement
from milepost.errors import CallCut, PreconditionFailed, ServiceNotReady
from milepost.storage.cluster import owners
from milepost.storage.cluster.hail import Doc
from milepost.storage.cluster.notice import Notice, Seat

ONE = Notice("one-1", "h", "m", 1, 1, 9, "", "", "http://h:8080", False, {})
TWO = ONE._replace(broker="two-2", http_url="https://i:8443")


def test_a_broker_is_named_by_its_address_or_its_name() -> None:
    for name in ("h:8080", "one-1"):
        assert broker_named([ONE, TWO], name) is ONE
    assert broker_named([ONE, TWO], "i:8443") is TWO


@pytest.mark.parametrize("name", ["", "h", "i:8080", "http://h:8080", "one"])
def test_a_broker_that_is_not_there_is_told_with_those_that_are(name: str) -> None:
    with pytest.raises(PreconditionFailed) as told:
        broker_named([TWO, ONE], name)
    assert str(told.value) == f"there is no living broker {name!r}; there are: h:8080, i:8443"


def test_an_address_that_several_brokers_give_names_none_of_them() -> None:
    """Brokers on two machines that both say 127.0.0.1: the shard went to either."""
    with pytest.raises(PreconditionFailed) as told:
        broker_named([ONE, TWO._replace(http_url=ONE.http_url)], "h:8080")
    assert str(told.value) == (
        "2 brokers say that they are at 'h:8080': one-1, two-2; name one of them, and give each an "
        "advertised_address of its own"
    )
    assert broker_named([ONE, TWO._replace(http_url=ONE.http_url)], "two-2").broker == "two-2"


def test_a_broker_without_http_has_its_name() -> None:
    silent = TWO._replace(http_url="")
    assert broker_named([ONE, silent], "two-2") is silent
    with pytest.raises(PreconditionFailed, match="no living broker ''; there are: h:8080, two-2"):
        broker_named([ONE, silent], "")


def test_a_broker_that_is_about_to_end_is_given_nothing() -> None:
    with pytest.raises(PreconditionFailed, match="broker 'h:8080' is about to end"):
        broker_named([ONE._replace(is_leaving=True), TWO], "h:8080")


def test_a_shard_that_does_not_come_is_told_when_its_broker_gives_up(tmp_path: Path) -> None:
    placement = ClusterPlacement(0, 2, ONE.broker, Address(1, -1, 2), tmp_path)

    async def play() -> None:
        owners.write(tmp_path, [ONE, TWO])  # the agent of this broker has not heard yet
        waiting = asyncio.ensure_future(arrived(placement, 1, TWO))
        assert not (await asyncio.wait([waiting], timeout=0.1))[0]
        owners.write(tmp_path, [ONE, TWO._replace(shards={1: None})])  # on its way
        assert not (await asyncio.wait([waiting], timeout=0.1))[0]
        owners.write(tmp_path, [ONE, TWO])
        with pytest.raises(ServiceNotReady, match="two-2 could not fetch shard 1; its log says"):
            await asyncio.wait_for(waiting, 20)
        owners.write(tmp_path, [ONE, TWO._replace(shards={1: Seat(3, "h", 1, -1, 2)})])
        await arrived(placement, 1, TWO)

    asyncio.run(play())


def test_what_a_broker_said_when_it_had_the_shard_before_is_no_try_to_get_it(
    tmp_path: Path,
) -> None:
    placement = ClusterPlacement(0, 2, ONE.broker, Address(1, -1, 2), tmp_path)
    owner = ONE._replace(shards={1: Seat(4, "h", 1, -1, 2)})

    async def play() -> None:
        # The process that gave the shard away is still there, and what the agent has read is old besides.
        owners.write(tmp_path, [owner, TWO._replace(shards={1: Seat(3, "h", 1, -1, 2)})])
        waiting = asyncio.ensure_future(arrived(placement, 1, TWO))
        for said in ({}, {1: None}):
            assert not (await asyncio.wait([waiting], timeout=0.1))[0]
            owners.write(tmp_path, [owner, TWO._replace(shards=said)])
        assert not (await asyncio.wait([waiting], timeout=0.1))[0]
        owners.write(tmp_path, [ONE, TWO._replace(shards={1: Seat(5, "h", 1, -1, 2)})])
        await asyncio.wait_for(waiting, 20)

    asyncio.run(play())


@pytest.mark.parametrize(
    ("failure", "told"),
    [
        (ServiceNotReady("no room"), "no room; it has got shards 1"),
        (CallCut("no answer"), "no answer: shard 2 may come yet; it has got shards 1"),
        (
            None,
            "shard 2 has not come to broker two-2 within 0.2 s; its log says why: shard 2 may come yet; "
            "it has got shards 1",
        ),
    ],
)
def test_a_move_that_ends_on_the_way_says_what_was_moved_and_what_may_be(
    failure: ServiceNotReady | None, told: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(moves, "ARRIVE_S", 0.2)
    seat = Seat(3, "h", 1, -1, 2)

    async def ask(host: str, port: int, secret: bytes, values: Doc, tls: object) -> Doc:
        if values["fetch"] == 1:
            owners.write(tmp_path, [ONE._replace(shards={2: seat}), TWO._replace(shards={1: seat})])
        elif failure is not None:
            raise failure
        return {}

    monkeypatch.setattr(moves.hail, "ask", ask)
    owners.write(tmp_path, [ONE._replace(shards={1: seat, 2: seat}), TWO])
    placement = ClusterPlacement(0, 3, ONE.broker, Address(1, -1, 2), tmp_path)
    place = SimpleNamespace(secret=bytes(32), tls=None)
    workers = SimpleNamespace(placement=placement, place=place)
    broker = cast("Broker", SimpleNamespace(workers=workers))
    with pytest.raises(ServiceNotReady) as found:
        asyncio.run(moves.move(broker, [2, 1], TWO.broker))
    assert str(found.value) == told


def test_the_shard_of_the_process_that_is_asked_goes_last(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """That process ends with it, and could move no other, nor answer."""
    seats = dict.fromkeys(range(3), Seat(3, "h", 1, -1, 2))
    there: dict[int, Seat | None] = {}

    async def ask(host: str, port: int, secret: bytes, values: Doc, tls: object) -> Doc:
        shard = values["fetch"]
        there[shard] = seats[shard]
        left = {one: seat for one, seat in seats.items() if one not in there}
        owners.write(tmp_path, [ONE._replace(shards=left), TWO._replace(shards=there)])
        return {}

    monkeypatch.setattr(moves.hail, "ask", ask)
    owners.write(tmp_path, [ONE._replace(shards=dict(seats)), TWO])
    placement = ClusterPlacement(1, 3, ONE.broker, Address(1, -1, 2), tmp_path)
    place = SimpleNamespace(secret=bytes(32), tls=None)
    workers = SimpleNamespace(placement=placement, place=place)
    broker = cast("Broker", SimpleNamespace(workers=workers))
    assert asyncio.run(moves.move(broker, [2, 1, 0], TWO.broker)) == [0, 2, 1]
    assert list(there) == [0, 2, 1]
