"""The console for an Apache Pulsar: every view, with what it cannot tell said in words.

A Milepost that is taken for an Apache Pulsar stands in for one; with `MILEPOST_PEER`, a program that runs one
(`$MILEPOST_PEER run pulsar --data DIR --port N --http-port M`), a real one is looked at too.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any, NamedTuple
from urllib.parse import quote

import pytest
from e2e.test_migrate_pulsar import Peer, peer

import milepost as pulsar
from console.scene import HOSTILE, HOSTILE_GROUP, HOSTILE_TEXT
from milepost import testing
from milepost.admin import Admin
from milepost.cli.console.console import make_server
from milepost.client.connection.endpoint import Endpoint

__all__ = ["peer"]

TOPIC = "#/topic/public/default/looked-at"
COUNT = 60


class Looked(NamedTuple):
    url: str
    admin: Admin


@pytest.fixture(scope="module", params=["like", "real"])
def looked(request: pytest.FixtureRequest) -> Iterator[Looked]:
    if request.param == "real":
        yield from _looked(request.getfixturevalue("peer"))
        return
    with testing.broker(http=True) as broker:
        yield from _looked(Peer(broker.url, broker.http_url))


def _looked(broker: Peer) -> Iterator[Looked]:
    server = make_server(Endpoint(admin_url=broker.http_url), 0, is_pulsar=True)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    with pulsar.Client(broker.url) as client, Admin(broker.http_url) as admin:
        consumer = client.subscribe(
            "looked-at",
            "holes",
            consumer_type=pulsar.ConsumerType.Shared,
            initial_position=pulsar.InitialPosition.Earliest,
        )
        admin.create_subscription("looked-at", "moved")
        producer = client.create_producer("looked-at", batching_enabled=False)
        for number in range(COUNT):
            producer.send(b'{"n":%d}' % number, partition_key=f"k{number}")
        taken = [consumer.receive(timeout_millis=60_000) for _ in range(COUNT)]
        for number in (*range(20), *range(30, 40)):
            consumer.acknowledge(taken[number])
        hostile = f"persistent://public/default/{HOSTILE}"
        other = client.subscribe(hostile, HOSTILE_GROUP, consumer_name=HOSTILE_TEXT)
        client.create_producer(hostile).send(HOSTILE_TEXT.encode(), partition_key=HOSTILE_TEXT)
        other.receive(timeout_millis=60_000)
        yield Looked(f"http://127.0.0.1:{server.server_port}/console/", admin)
    server.shutdown()
    thread.join()
    server.server_close()


def test_every_view_is_there_and_says_what_is_not_told(open_console: Any, looked: Looked) -> None:
    console = open_console(looked.url)
    page = console.go()
    page.get_by_role("link", name=HOSTILE_GROUP, exact=True).wait_for()
    assert page.get_by_text("This is an Apache Pulsar.").is_visible()
    assert page.get_by_text("entries not acked").first.is_visible()
    console.go("#/topics?search=looked")
    page.get_by_role("link", name="looked-at").click()
    page.locator("canvas[data-group=holes]").wait_for()
    assert page.locator(".legend").inner_text().split("\n") == ["not acked", "acked"]
    console.until(lambda: "30 not acked, 30 acked" in page.locator(".counts").first.inner_text())
    page.locator("canvas[data-group=holes]").hover(position={"x": 2, "y": 20})
    page.locator(".tip", has_text="entry 0").get_by_text("acked", exact=True).wait_for()
    console.go(f"{TOPIC}?tab=messages&from=index&at=7")
    message = page.locator("details.message").first
    message.locator("summary").click()
    assert '"n": 7' in message.locator("pre").inner_text()
    console.go(f"{TOPIC}?tab=clients")
    page.get_by_role("cell", name="holes").first.wait_for()
    console.go(f"{TOPIC}?tab=about")
    page.get_by_role("heading", name="Policies that hold").wait_for()
    console.go(f"#/topic/public/default/{quote(HOSTILE, safe='')}?tab=messages")
    page.locator("details.message").first.locator("summary").click()
    page.locator("pre", has_text=HOSTILE_TEXT).wait_for()  # it is made when the message is opened
    console.check()


def test_a_reset_shows_what_it_does_and_does_it(open_console: Any, looked: Looked) -> None:
    console = open_console(looked.url)
    page = console.go(f"{TOPIC}?group=moved")
    page.get_by_label("Allow changes").check()
    page.get_by_role("button", name="Reset…").first.click()
    page.get_by_label("Where to").fill("45")
    page.locator(".preview", has_text="45 are skipped").wait_for()
    assert page.get_by_text("no preview of its own").is_visible()
    page.get_by_label("Type moved to confirm").fill("moved")
    page.get_by_role("button", name="Reset", exact=True).click()
    page.get_by_text("Done:").wait_for()
    stats = looked.admin.get_stats("looked-at")["subscriptions"]["moved"]
    assert stats["msgBacklog"] == COUNT - 45
    console.check()
