"""The application behind the listener is made when a request needs it, once, and again if that failed."""

from __future__ import annotations

import asyncio
import errno
import subprocess
import sys
from collections.abc import Callable, Coroutine
from importlib import import_module
from typing import Any, TypeVar

import pytest
from stage.http import Request, call

from milepost import testing
from milepost.positions.names import TopicName
from milepost.rest import serve
from milepost.rest.serve import LateApp

T = TypeVar("T")

HEALTH = Request("GET", "/admin/v2/brokers/ready")


def test_nothing_of_the_framework_is_loaded_before_the_first_request() -> None:
    program = (
        "import sys, milepost.cli.server.process, milepost.broker.run, milepost.rest.serve; "
        "heavy = ('fastapi', 'pydantic', 'starlette', 'prometheus_client', 'milepost.rest.app'); "
        "print([one for one in sys.modules if one.startswith(heavy)])"
    )
    said = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True
    )
    assert said.stdout.strip() == "[]"


def with_app(work: Callable[[LateApp], Coroutine[Any, Any, T]]) -> T:
    """Do something with an application that is not made yet, on a loop that has threads."""

    async def run() -> T:
        async with testing.broker() as running:
            return await work(LateApp(running.running.broker))

    return asyncio.run(run())


def test_requests_that_come_together_wait_for_one_application(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made = 0

    def counted(name: str) -> Any:
        nonlocal made
        made += 1
        return import_module(name)

    monkeypatch.setattr(serve, "import_module", counted)

    async def ask(app: LateApp) -> list[int]:
        answers = await asyncio.gather(*(call(app, HEALTH) for _ in range(3)))
        return [answer.status for answer in (*answers, await call(app, HEALTH))]

    assert with_app(ask) == 4 * [200]
    assert made == 1


def test_an_application_that_could_not_be_made_is_tried_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fails(name: str) -> Any:
        raise OSError(errno.EMFILE, "Too many open files")

    async def ask(app: LateApp) -> int:
        with monkeypatch.context() as patched:
            patched.setattr(serve, "import_module", fails)
            with pytest.raises(OSError, match="Too many open files"):
                await call(app, HEALTH)
        return (await call(app, HEALTH)).status

    assert with_app(ask) == 200


def test_a_client_that_goes_away_takes_nothing_from_the_others() -> None:
    async def ask(app: LateApp) -> int:
        first, second = (asyncio.ensure_future(call(app, HEALTH)) for _ in range(2))
        await asyncio.sleep(0)
        first.cancel()
        return (await second).status

    assert with_app(ask) == 200


def test_it_knows_no_other_owner_before_it_is_made() -> None:
    name = TopicName.parse("persistent://public/default/t")

    async def ask(app: LateApp) -> tuple[str | None, str | None]:
        before = app.owner_of(name)
        (await app.made()).state.owner_of = lambda name: "http://elsewhere:8080"
        return before, app.owner_of(name)

    assert with_app(ask) == (None, "http://elsewhere:8080")
