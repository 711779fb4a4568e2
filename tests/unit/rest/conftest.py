"""A broker that listens nowhere, and its HTTP edge called without a socket."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from stage.fixtures import make_stage, stage
from stage.http import Answer, Request, Web, call
from stage.stage import Stage

from milepost.broker.broker import Broker
from milepost.broker.settings.settings import Settings
from milepost.clock import SystemClock
from milepost.rest.app import create_app
from milepost.storage.engine import StorageEngine, open_store

__all__ = ["Answer", "Ask", "Request", "call", "make_stage", "stage"]

Ask = Callable[..., list[Answer]]


@pytest.fixture
def ask(tmp_path: Path) -> Ask:
    """Start a broker, send requests, give the answers.

    A request is text, `GET /path`, or a `Request`; a function among them is called with the broker
    when its turn comes.
    """

    async def run(
        *requests: str | Request | Callable[[Broker], Any], **settings: Any
    ) -> list[Answer]:
        store, lock = open_store(tmp_path / "data", SystemClock())
        engine = StorageEngine(store, lock)
        broker = Broker(Settings(data=tmp_path / "data", **settings), engine, SystemClock())
        await broker.start()
        try:
            app = create_app(broker)
            answers: list[Answer] = []
            for request in requests:
                if isinstance(request, str):
                    request = Request(*request.split(" ", 1))
                if isinstance(request, Request):
                    answers.append(await call(app, request))
                elif asyncio.iscoroutine(done := request(broker)):
                    await done
            return answers
        finally:
            await broker.close()

    def ask(*requests: Any, **settings: Any) -> list[Answer]:
        return asyncio.run(run(*requests, **settings))

    return ask


@pytest.fixture
def web(stage: Stage) -> Web:
    return Web(stage)
