"""The grants of every namespace, in memory and in the catalog."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from stage.changes import told

from milepost.broker.auth.grant_book import GRANTS, GrantBook
from milepost.broker.auth.grants import Grants
from milepost.broker.auth.operations import Action
from milepost.errors import PersistenceError
from milepost.positions.names import NamespaceName
from milepost.storage.catalog.catalog import Catalog

SHOP = NamespaceName.parse("acme/shop")


class _Documents:
    """As much of a catalog as grants need."""

    def __init__(self) -> None:
        self.stored: dict[str, Any] = {}
        self.fails = False
        self.gate: asyncio.Event | None = None

    async def change(self, work: Callable[[Any], Any]) -> Any:
        if self.gate is not None:
            await self.gate.wait()
        if self.fails:
            raise PersistenceError("no disk")
        return work(self)

    def doc(self, folder: str, name: str) -> Any:
        assert folder == GRANTS
        return self.stored.get(name)

    def docs(self, folder: str) -> Any:
        return dict(self.stored)

    def put_doc(self, folder: str, name: str, doc: Any) -> None:
        self.stored[name] = doc

    def delete_doc(self, folder: str, name: str) -> None:
        self.stored.pop(name, None)


def _there(catalog: Catalog, namespace: str) -> None:
    """Every namespace is."""


def _unheard(namespace: NamespaceName) -> None:
    """A change that the test does not look at."""


def _grant(role: str) -> Callable[[Grants], Grants]:
    return lambda grants: grants.with_namespace_role(role, {Action.PRODUCE})


def test_what_is_granted_is_there_after_a_restart() -> None:
    async def run() -> None:
        documents = _Documents()
        changed: list[NamespaceName] = []
        book = GrantBook(told(documents.change), check=_there, on_change=changed.append)
        await book.edit(SHOP, _grant("a"))
        again = GrantBook(told(documents.change), check=_there, on_change=changed.append)
        await again.load()
        assert again.of(SHOP) == book.of(SHOP) != Grants()
        assert changed == [SHOP]
        await book.edit(SHOP, lambda grants: grants.without_namespace_role("a"))
        assert book.of(SHOP) == Grants()
        assert not documents.stored

    asyncio.run(run())


def test_edits_at_once_are_all_there() -> None:
    async def run() -> None:
        book = GrantBook(told(_Documents().change), check=_there, on_change=_unheard)
        await asyncio.gather(*(book.edit(SHOP, _grant(f"r{n}")) for n in range(10)))
        assert len(book.of(SHOP).namespace) == 10

    asyncio.run(run())


def test_what_was_not_stored_is_not_granted() -> None:
    async def run() -> None:
        documents = _Documents()
        book = GrantBook(told(documents.change), check=_there, on_change=_unheard)
        documents.fails = True
        with pytest.raises(PersistenceError):
            await book.edit(SHOP, _grant("a"))
        assert book.of(SHOP) == Grants()

    asyncio.run(run())


def test_an_edit_whose_caller_gave_up_is_done_all_the_same() -> None:
    async def run() -> None:
        documents = _Documents()
        book = GrantBook(told(documents.change), check=_there, on_change=_unheard)
        await book.edit(SHOP, _grant("a"))
        documents.gate = asyncio.Event()
        edit = asyncio.create_task(book.edit(SHOP, lambda grants: Grants()))
        await asyncio.sleep(0)
        edit.cancel()
        with pytest.raises(asyncio.CancelledError):
            await edit
        documents.gate.set()
        while documents.stored:
            await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert book.of(SHOP) == Grants()

    asyncio.run(run())
