"""The settings that Apache Pulsar 4.2.4 ships for its standalone, as they are: started with, and behaved by.

`pulsar_standalone.conf` has the keys and values of that file, without its words.
"""

from __future__ import annotations

import json
import re
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pulsar
import pytest

from e2e.conftest import Serving
from milepost.broker.settings.settings import TABLE

CONF = Path(__file__).parent / "pulsar_standalone.conf"
SHIPPED = dict(line.split("=", 1) for line in CONF.read_text("utf-8").splitlines())
HONOURED = {alias.key for one in TABLE.values() for alias in one.aliases}


@pytest.fixture
def serving(data: Path) -> Iterator[Serving]:
    broker = Serving(data, "--conf", str(CONF), "--host", "127.0.0.1")
    yield broker
    if broker.process.poll() is None:
        broker.process.kill()
    broker.process.communicate()


def test_it_starts_lists_what_it_ignores_and_serves(serving: Serving) -> None:
    assert serving.get("/admin/v2/brokers/health") == b"ok"
    client = pulsar.Client(
        serving.ready["pulsar_url"], logger=pulsar.ConsoleLogger(pulsar.LoggerLevel.Error)
    )
    try:
        consumer = client.subscribe("persistent://public/default/t", "s")
        client.create_producer("persistent://public/default/t").send(b"hello")
        assert consumer.receive(30_000).data() == b"hello"
    finally:
        client.close()
    runtime = json.loads(serving.get("/admin/v2/brokers/configuration/runtime"))
    for key in ("clusterName", "maxUnackedMessagesPerConsumer", "ttlDurationDefaultInSeconds"):
        assert runtime[key] == SHIPPED[key], key
    strategy = "/admin/v2/persistent/public/default/t/schemaCompatibilityStrategy?applied=true"
    assert json.loads(serving.get(strategy)) == SHIPPED["schemaCompatibilityStrategy"]
    _, logged = serving.stop()
    (line,) = [one for one in logged.splitlines() if "not used here" in one]
    ignored = set(re.findall(r"\w+", line.partition("pulsar_standalone.conf:")[2]))
    # Each key is one or the other, and none of those that are honoured is said to be ignored.
    assert ignored <= set(SHIPPED)
    assert not ignored & HONOURED
    assert set(SHIPPED) - ignored <= HONOURED


def test_what_it_honours_is_in_the_page_of_settings() -> None:
    page = (CONF.parents[2] / "docs/configuration.md").read_text("utf-8")
    for key in HONOURED & set(SHIPPED):
        assert f"`{key}`" in page, key


def test_a_changed_value_changes_what_it_does(data: Path, tmp_path: Path) -> None:
    text = CONF.read_text("utf-8").replace(
        "allowAutoTopicCreation=true", "allowAutoTopicCreation=false"
    )
    assert text != CONF.read_text("utf-8")
    changed = tmp_path / "standalone.conf"
    changed.write_text(text, "utf-8")
    broker = Serving(data, "--conf", str(changed), "--host", "127.0.0.1")
    try:
        request = urllib.request.Request(
            f"{broker.ready['http_url']}/admin/v2/persistent/public/default/t", method="PUT"
        )
        urllib.request.urlopen(request, timeout=30).close()
        client = pulsar.Client(
            broker.ready["pulsar_url"],
            operation_timeout_seconds=30,
            logger=pulsar.ConsoleLogger(pulsar.LoggerLevel.Error),
        )
        try:
            client.create_producer("persistent://public/default/t").send(b"hello")
            with pytest.raises(pulsar.TopicNotFound):
                client.create_producer("persistent://public/default/none")
        finally:
            client.close()
    finally:
        broker.stop()
