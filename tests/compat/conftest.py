"""What the tests with the official client share: a broker for each module, a client and a topic for each
test."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pulsar
import pytest
from compat.broker_process import BrokerProcess

_numbers = itertools.count()


@pytest.fixture(scope="module")
def broker(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[BrokerProcess]:
    """The module's broker; a module that needs other settings has them in `SETTINGS`."""
    settings = getattr(request.module, "SETTINGS", {})
    with BrokerProcess(tmp_path_factory.mktemp("broker"), **settings) as process:
        yield process
    assert not process.complaints()


@pytest.fixture
def own_broker(tmp_path: Path) -> Iterator[Callable[..., BrokerProcess]]:
    """Makes brokers for one test alone: to be killed, or with settings of its own."""
    made: list[BrokerProcess] = []

    def make(**settings: object) -> BrokerProcess:
        process = BrokerProcess(tmp_path / f"broker-{len(made)}", **settings)
        made.append(process)
        process.start()
        return process

    yield make
    for process in made:
        process.kill()
    for process in made:
        assert not process.complaints()


@pytest.fixture
def connect() -> Iterator[Callable[..., pulsar.Client]]:
    """Makes clients that end with the test."""
    made: list[pulsar.Client] = []

    def make(broker: BrokerProcess, **options: object) -> pulsar.Client:
        options.setdefault("operation_timeout_seconds", 10)
        options.setdefault("logger", pulsar.ConsoleLogger(pulsar.LoggerLevel.Warn))
        client = pulsar.Client(broker.url, **options)
        made.append(client)
        return client

    yield make
    for client in made:
        client.shutdown()  # unlike close, it waits for no broker: some tests end without one


@pytest.fixture
def client(broker: BrokerProcess, connect: Callable[..., pulsar.Client]) -> pulsar.Client:
    return connect(broker)


@pytest.fixture
def topic(request: pytest.FixtureRequest) -> str:
    """A topic that no other test has."""
    name = re.sub(r"[^A-Za-z0-9]+", "-", request.node.name)
    return f"persistent://public/default/{name}{next(_numbers)}"
