"""How many connections there may be, over all ports."""

from __future__ import annotations

import dataclasses

from milepost.broker.limits.connection_limits import ConnectionLimits
from milepost.broker.settings.settings import Settings
from milepost.storage.descriptors import RESERVED


def test_connections_leave_the_storage_its_descriptors() -> None:
    limits = ConnectionLimits(Settings, descriptors=RESERVED + 2)
    assert [limits.enter("a"), limits.enter("b"), limits.enter("c")] == [None, None, "descriptors"]
    limits.leave("a")
    assert limits.enter("c") is None


def test_clients_of_another_kind_have_room_of_their_own() -> None:
    limits = ConnectionLimits(Settings, descriptors=RESERVED + 9)
    assert (limits.set_aside().room, limits.room) == (4, 5)
    limited = ConnectionLimits(lambda: Settings(max_connections=2), descriptors=RESERVED + 9)
    assert (limited.set_aside().room, limited.room) == (2, 7)
    full = ConnectionLimits(Settings, descriptors=RESERVED)
    assert (full.set_aside().room, full.room) == (1, 1)


def test_clients_of_another_kind_are_counted_apart() -> None:
    limits = ConnectionLimits(lambda: Settings(max_connections=1), descriptors=1000)
    others = limits.set_aside()
    assert [others.enter("a"), others.enter("a")] == [None, "descriptors"]
    assert [limits.enter("a"), limits.enter("a")] == [None, "max_connections"]
    others.leave("a")
    assert others.enter("b") is None


def test_settings_count_in_all_and_by_address() -> None:
    settings = Settings(max_connections=3, max_connections_per_ip=2)
    limits = ConnectionLimits(lambda: settings, descriptors=1000)
    assert [limits.enter("a") for _ in range(3)] == [None, None, "max_connections_per_ip"]
    assert [limits.enter("b") for _ in range(2)] == [None, "max_connections"]
    limits.leave("a")
    assert limits.hosts == {"a": 1, "b": 1}
    settings = dataclasses.replace(settings, max_connections=5)
    assert limits.enter("b") is None
