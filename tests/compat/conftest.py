"""What the tests with the official client share: a broker, and a client and a topic for each test."""

from __future__ import annotations

import itertools
import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pulsar
import pytest
from compat.broker_process import BrokerProcess

_numbers = itertools.count()


@pytest.fixture(scope="session")
def brokers(
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Callable[..., BrokerProcess]]:
    """The brokers that many tests share: one for each set of settings."""
    made: dict[tuple[tuple[str, object], ...], BrokerProcess] = {}

    def shared(**settings: object) -> BrokerProcess:
        key = tuple(sorted(settings.items()))
        if key not in made:
            made[key] = BrokerProcess(tmp_path_factory.mktemp("broker"), **settings)
            made[key].start()
        return made[key]

    yield shared
    for process in made.values():
        process.kill()


@pytest.fixture(scope="module")
def broker(
    request: pytest.FixtureRequest, brokers: Callable[..., BrokerProcess]
) -> Iterator[BrokerProcess]:
    """A broker that others use too; a module that needs other settings has them in `SETTINGS`."""
    process = brokers(**getattr(request.module, "SETTINGS", {}))
    process.complaints()
    yield process
    assert process.is_running
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
        options.setdefault("operation_timeout_seconds", 30)
        options.setdefault("logger", pulsar.ConsoleLogger(pulsar.LoggerLevel.Warn))
        client = pulsar.Client(broker.url, **options)
        made.append(client)
        return client

    yield make
    # Shutting down holds the interpreter's lock; a callback that has not returned would wait for it,
    # and the client for the callback.
    time.sleep(0.01)  # sleep: lets callbacks return
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
