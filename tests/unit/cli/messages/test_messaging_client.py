"""Errors of several tasks."""

from __future__ import annotations

import asyncio

import pytest

from milepost.cli.messages.messaging_client import run, together


def test_the_first_error_ends_the_others_and_is_raised_as_it_is() -> None:
    ended: list[str] = []

    async def waits() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append("waits")

    async def fails() -> None:
        raise BrokenPipeError

    async def both() -> None:
        await together(waits(), together(fails()))

    with pytest.raises(BrokenPipeError):
        run(both())
    assert ended == ["waits"]
