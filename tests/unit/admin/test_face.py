"""Both faces drive the same scripts, tell refusals to them, and end what they were given."""

from __future__ import annotations

import asyncio

import pytest
from unit.admin.conftest import Played

from milepost.admin.aio import AsyncFace
from milepost.admin.calls import Calls
from milepost.admin.errors import AdminError, Missing
from milepost.admin.face import SyncFace
from milepost.admin.request import Script, get


class Sync(Calls, SyncFace):
    pass


class Async(Calls, AsyncFace):
    pass


def forgiving() -> Script[str]:
    try:
        yield get("/first")
    except Missing as error:
        answer = yield get("/second")
        return f"{error.status} {answer.text()}"
    return "found"


def test_a_script_may_go_on_after_a_refusal() -> None:
    assert SyncFace(Played(404, b"well")).run(forgiving()) == "404 well"
    assert asyncio.run(AsyncFace(Played(404, b"well")).run(forgiving())) == "404 well"


def test_a_refusal_that_nobody_catches_is_raised() -> None:
    with pytest.raises(AdminError) as caught:
        Sync(Played(500)).list_tenants()
    assert (caught.value.status, caught.value.reason) == (500, "played")

    async def refused() -> None:
        with pytest.raises(AdminError, match="played"):
            await Async(Played(409)).list_tenants()

    asyncio.run(refused())


def test_the_same_calls_return_or_are_awaited() -> None:
    with Sync(Played(["a"])) as admin:
        assert admin.list_tenants() == ["a"]

    async def awaited() -> list[str]:
        async with Async(Played(["a"])) as admin:
            return await admin.list_tenants()

    assert asyncio.run(awaited()) == ["a"]


def test_closing_closes_the_transport() -> None:
    transport = Played()
    with Sync(transport):
        assert not transport.is_closed
    assert transport.is_closed


def test_a_method_keeps_name_and_words() -> None:
    method = Sync(Played()).get_message_id_by_index
    assert method.__name__ == "get_message_id_by_index"
    assert "PIP-415" in (method.__doc__ or "")
    assert "PIP-415" in (Calls.get_message_id_by_index.__doc__ or "")
