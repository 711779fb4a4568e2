"""The registry: two workers on one database."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path

import pytest

from milepost.errors import AlreadyExists, CorruptData
from milepost.storage import registry, shards
from milepost.storage.catalog.catalog import Catalog
from milepost.storage.registry import Registry

KILLED = """
import os, signal, sys
from pathlib import Path
from milepost.storage.catalog.sqlite_catalog import SqliteCatalog
catalog = SqliteCatalog(Path(sys.argv[1]))
with catalog.transaction():
    catalog.put_doc("tenants", "whole", {})
with catalog.transaction():
    catalog.put_doc("tenants", "half", {})
    os.kill(os.getpid(), signal.SIGKILL)
"""


async def never() -> None:
    raise AssertionError("nothing was changed")


def tenants(catalog: Catalog) -> list[str]:
    return sorted(catalog.docs("tenants"))


def test_a_change_is_told_when_it_is_in_the_database_and_before_its_caller_returns(
    tmp_path: Path,
) -> None:
    registry.create(tmp_path, tenants)

    async def play() -> None:
        told: list[list[str]] = []

        async def tell() -> None:
            told.append(await other(tenants))

        one, other = Registry(tmp_path, tell), Registry(tmp_path, never)
        stored: list[None] = []
        assert not await other.has_changed()
        await one(lambda catalog: catalog.put_doc("tenants", "acme", {}), stored.append)
        assert stored == [None]
        assert told == [["acme"]]
        assert await other.has_changed()
        assert not await other.has_changed()
        assert not await one.has_changed()
        one.close()
        other.close()

    asyncio.run(play())


def test_what_fails_changes_nothing_tells_nothing_and_is_in_doubt(tmp_path: Path) -> None:
    registry.create(tmp_path, tenants)

    async def play() -> None:
        one = Registry(tmp_path, never)
        undone: list[bool] = []

        def change(catalog: Catalog) -> None:
            catalog.put_doc("tenants", "acme", {})
            raise AlreadyExists("acme")

        with pytest.raises(AlreadyExists):
            await one(change, undo=lambda: undone.append(True))
        assert undone == [True]
        assert await one(tenants) == []
        assert await one.has_changed()  # what this worker has in memory is to be read again
        assert not await one.has_changed()
        one.close()

    asyncio.run(play())


def test_a_worker_that_is_killed_leaves_nothing_half_done(tmp_path: Path) -> None:
    registry.create(tmp_path, tenants)

    async def play() -> None:
        one = Registry(tmp_path, never)
        command = [sys.executable, "-c", KILLED, str(tmp_path / registry.FILE)]
        killed = await asyncio.to_thread(subprocess.run, command, timeout=60, check=False)
        assert killed.returncode == -9
        assert await one.has_changed()
        assert await one(tenants) == ["whole"]
        one.close()

    asyncio.run(play())


def test_none_is_made_in_the_place_of_one_that_was_deleted(tmp_path: Path) -> None:
    """It would have no policy and no grant."""
    shards.make(tmp_path, 2)
    registry.create(tmp_path, tenants)  # a first start that was killed has left empty folders
    registry.create(tmp_path, tenants)
    (shards.shard_path(tmp_path, 1) / "catalog.sqlite").touch()
    registry.create(tmp_path, tenants)
    (tmp_path / registry.FILE).unlink()
    with pytest.raises(CorruptData, match=r"registry.sqlite: it is missing, and .*shards is there"):
        registry.create(tmp_path, tenants)
    assert not (tmp_path / registry.FILE).exists()
