"""The client's tests: coroutines, a broker that all of them share, a topic for each.

A test that is a coroutine runs on a loop of its own, and fails if anything on that loop raised where
nobody listened. The broker is Milepost on a thread, or in processes of its own with `MILEPOST_TESTS_ON`
(`stage/tests_on.py`), or, with `PULSAR_TEST_URL` (and `PULSAR_TEST_ADMIN_URL`), an Apache Pulsar: then tests
of what only Milepost has are skipped.
"""

from __future__ import annotations

import asyncio
import inspect
import itertools
import os
import re
import tempfile
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from compat.broker_process import BrokerProcess
from stage.tests_on import EMBEDDED, TESTS_ON

import milepost.testing
from milepost.aio import Client
from milepost.client.connection.service_url import ServiceUrl
from milepost.positions import TopicName
from milepost.testing.broker import BrokerForTest

_numbers = itertools.count()

PULSAR_URL = os.environ.get("PULSAR_TEST_URL")
PULSAR_ADMIN_URL = os.environ.get("PULSAR_TEST_ADMIN_URL")
TEST_TIMEOUT_S = 240


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    test = pyfuncitem.obj
    if not inspect.iscoroutinefunction(test):
        return None
    names = pyfuncitem._fixtureinfo.argnames
    arguments = {name: pyfuncitem.funcargs[name] for name in names}
    unheard: list[dict[str, Any]] = []

    async def run() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _, found: unheard.append(found))
        async with asyncio.timeout(TEST_TIMEOUT_S):
            await test(**arguments)
        await hang_up(asyncio.get_running_loop())

    asyncio.run(run())
    assert not unheard, unheard
    return True


async def hang_up(loop: asyncio.AbstractEventLoop) -> None:
    """Leave no socket behind: collected later, it would fail whichever test runs then.

    What a server accepted just as the test ended has nobody who would close it."""
    transports = getattr(loop, "_transports", {})
    quiet = 0
    while quiet < 10:
        left = [one for one in list(transports.values()) if not one.is_closing()]
        for transport in left:
            transport.abort()
        quiet = 0 if left else quiet + 1
        await asyncio.sleep(0)


AnyBroker = BrokerForTest | BrokerProcess


@contextmanager
def any_broker() -> Iterator[AnyBroker]:
    """A Milepost with REST, by `MILEPOST_TESTS_ON`: has `url`, `http_url`, and a port."""
    if TESTS_ON == EMBEDDED:
        with milepost.testing.broker(http=True) as broker:
            yield broker
        return
    with tempfile.TemporaryDirectory() as directory, BrokerProcess(Path(directory)) as process:
        yield process
        assert not process.complaints()


def port_of(broker: AnyBroker, topic: str) -> int:
    """Where the process listens that has a topic."""
    return broker.port if isinstance(broker, BrokerForTest) else broker.port_of(topic)


@pytest.fixture(scope="session")
def running() -> Iterator[AnyBroker | None]:
    """The Milepost that tests share; None where they run against an Apache Pulsar."""
    if PULSAR_URL is not None:
        yield None
        return
    with any_broker() as broker:
        yield broker


@pytest.fixture(scope="session")
def service(running: AnyBroker | None) -> str:
    """The URL of the broker that tests share."""
    return PULSAR_URL if running is None else running.url


@pytest.fixture(scope="session")
def port(service: str) -> int:
    """Where it listens, for a proxy before it."""
    return ServiceUrl.parse(service).hosts[0][1]


@pytest.fixture
def partition(running: AnyBroker | None) -> Callable[[str, int], None]:
    """Makes a topic partitioned."""

    def make(topic: str, count: int) -> None:
        if isinstance(running, BrokerProcess):
            running.create_partitioned_topic(topic, count)
            return
        if running is not None:
            name = TopicName.parse(topic)
            running.run(running.running.broker.create_partitioned_topic(name, count))
            return
        path = topic.replace("://", "/")
        request = urllib.request.Request(
            f"{PULSAR_ADMIN_URL}/admin/v2/{path}/partitions",
            data=b"%d" % count,
            headers={"Content-Type": "application/json"},
            method="PUT",
        )
        urllib.request.urlopen(request, timeout=20).close()

    return make


@pytest.fixture
def is_milepost() -> bool:
    return PULSAR_URL is None


@pytest.fixture
def milepost_only(is_milepost: bool) -> None:
    if not is_milepost:
        pytest.skip("Apache Pulsar does not have this")


@pytest.fixture
def connect(service: str) -> Callable[..., Client]:
    """Makes clients; each test closes its own, with `async with`."""

    def make(**options: Any) -> Client:
        options.setdefault("operation_timeout_seconds", 20)
        options.setdefault("admin_url", PULSAR_ADMIN_URL)
        return Client(service, **options)

    return make


@pytest.fixture
def topic(request: pytest.FixtureRequest) -> str:
    """A topic that no other test has."""
    name = re.sub(r"[^A-Za-z0-9]+", "-", request.node.name)
    return f"persistent://public/default/{name}-{os.getpid()}-{next(_numbers)}"


async def check_backlog(consumer: Any, messages: int) -> None:
    """What is left, in messages: Apache Pulsar counts entries, and says nothing of it."""
    if PULSAR_URL is None:
        assert (await consumer.broker_stats()).msgBacklog == messages
