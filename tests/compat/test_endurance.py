"""Behind many connections, and behind a long load, a broker takes as much memory and descriptors as before.

`make campaign` churns 10,000 connections and loads for an hour, with pauses of the whole process; `make
test` churns a few hundred. The load is that of test_kill_under_load.py without its kills, and the checker
judges it.
"""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest
from compat.broker_process import BrokerProcess, not_on_a_bucket, not_on_workers
from compat.raw_client import RawClient, subscribe
from compat.test_kill_under_load import Campaign, judged
from stage.counts import campaign_count
from stage.summaries import KEY as SUMMARY

from milepost.wire import pulsar_pb2 as pb

CONNECTIONS = campaign_count("MILEPOST_CONNECTIONS", 300, 10_000)
SOAK_S = campaign_count("MILEPOST_SOAK_SECONDS", 0, 3600)
AT_ONCE = 20
PATIENCE_S = 30.0
START_S = 120
# What Python's allocator and the caches of topics may still take when everything was used once.
GROWTH_MAX_MIB = 24.0
PAUSE_S = (0.5, 3.0)

pytestmark = [
    not_on_a_bucket("the client of the store has sockets of its own"),
    not_on_workers("one process is looked at, and workers have sockets between them"),
]


def used_by(pid: int) -> tuple[float, int]:
    """Memory in MiB, and open descriptors."""
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20, len(os.listdir(f"/proc/{pid}/fd"))


def sockets_of(pid: int) -> int:
    count = 0
    for one in Path(f"/proc/{pid}/fd").iterdir():
        with suppress(FileNotFoundError):  # closed since
            count += os.readlink(one).startswith("socket:")
    return count


def await_sockets(pid: int, most: int) -> None:
    """Until the broker has heard of the last end."""
    deadline = time.monotonic() + PATIENCE_S
    while (now := sockets_of(pid)) > most:
        assert time.monotonic() < deadline, f"{now} sockets, {most} at the start"
        time.sleep(0.05)  # sleep: it hears of them in its own time


def churn(port: int, count: int, draw: random.Random) -> None:
    """Connections that come and go: most without a word of farewell, some as producers or consumers."""
    open_ones: list[RawClient] = []
    for number in range(count):
        client = RawClient(port)
        open_ones.append(client)
        kind = draw.choice(("idle", "producer", "consumer"))
        if kind == "producer":
            client.request(pb.CommandProducer(topic="churned", producer_id=0, request_id=0))
        elif kind == "consumer":
            subscribe(client, "churned", f"s{number % 5}", pb.CommandSubscribe.Shared)
        if len(open_ones) == AT_ONCE:
            open_ones.pop(draw.randrange(AT_ONCE)).close()
    for client in open_ones:
        client.close()


@pytest.mark.timeout(3600)
def test_connections_that_come_and_go_leave_nothing(
    tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    draw = random.Random(7)
    broker = BrokerProcess(tmp_path)
    broker.patience_s = START_S
    with broker:
        (pid,) = broker.serving
        sockets = sockets_of(pid)
        churn(broker.port, 100, draw)  # everything was used once
        await_sockets(pid, sockets)
        memory, descriptors = used_by(pid)
        churn(broker.port, CONNECTIONS, draw)
        await_sockets(pid, sockets)
        memory_now, descriptors_now = used_by(pid)
        record_property(
            SUMMARY,
            f"{CONNECTIONS} connections: {memory_now - memory:+.1f} MiB, "
            f"{descriptors_now - descriptors:+} descriptors",
        )
        assert memory_now < memory + GROWTH_MAX_MIB
        assert descriptors_now <= descriptors
        assert not broker.complaints()


@pytest.mark.skipif(not SOAK_S, reason="a part of make campaign: MILEPOST_SOAK_SECONDS")
@pytest.mark.timeout(SOAK_S + 1800)
def test_a_long_load_takes_no_more_than_a_short_one(
    tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    campaign = Campaign(tmp_path, 1, deduplication=True)
    try:
        campaign.begin()
        (pid,) = campaign.broker.serving
        began = time.monotonic()
        early: list[tuple[float, int]] = []
        late: list[tuple[float, int]] = []
        pauses = 0
        while (age_s := time.monotonic() - began) < SOAK_S:
            (early if age_s < SOAK_S / 3 else late).append(used_by(pid))
            time.sleep(min(1.0, SOAK_S / 20))  # sleep: the time of the soak itself
            if campaign.random.random() < 0.02:
                campaign.broker.pause()
                time.sleep(campaign.random.uniform(*PAUSE_S))  # sleep: the process stands still
                campaign.broker.resume()
                pauses += 1
        campaign.drain()
        campaign.look_back()
        campaign.broker.stop()
    finally:
        campaign.close()
    verdict = judged(campaign)
    memory = [max(one[0] for one in part) for part in (early, late)]
    descriptors = [max(one[1] for one in part) for part in (early, late)]
    record_property(
        SUMMARY,
        f"{SOAK_S} s, {pauses} pauses, {verdict.events['publish ok']} receipts: at most "
        f"{memory[0]:.0f} MiB and {descriptors[0]} descriptors "
        f"in the first third, {memory[1]:.0f} and {descriptors[1]} behind it: "
        f"{verdict.found.total()} anomalies",
    )
    assert not verdict.anomalies, verdict.anomalies[:3]
    assert memory[1] < memory[0] + GROWTH_MAX_MIB
    assert descriptors[1] <= descriptors[0] + 5
