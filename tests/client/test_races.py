"""Races between a consumer and its network, its operator and itself, by seed: race.py."""

from __future__ import annotations

import asyncio

import pytest
from stage.counts import campaign_count

import milepost.testing
from client.race import Course, Race, settle_errors
from milepost.aio import Client

SEEDS = campaign_count("MILEPOST_RACES", 120, 10_000)
GROUPS = 20


@pytest.mark.parametrize("group", range(GROUPS))
async def test_no_race_breaks_a_promise(group: int) -> None:
    """Promises 2, 3 and 6. The failing seed is in the error: its group plays it again."""
    async with milepost.testing.broker() as broker, Client(broker.url) as client:
        course = Course(client, f"course-{group}", group)
        await course.publish()
        for seed in range(group, SEEDS, GROUPS):
            async with asyncio.timeout(30):
                await settle_errors(Race(broker, course, seed))
