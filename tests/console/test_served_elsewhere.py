"""The console that `milepost console` serves for another broker is the same console."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from console.scene import Scene, publish, scene
from milepost.cli.console.console import make_server
from milepost.client.connection.endpoint import Endpoint


@contextmanager
def served(scene: Scene) -> Iterator[str]:
    server = make_server(Endpoint(admin_url=scene.broker.http_url), 0)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/console/"
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture
def address(orders: Scene) -> Iterator[str]:
    with served(orders) as found:
        yield found


def test_its_views_show_the_other_broker(open_console: Any, address: str) -> None:
    console = open_console(address)
    page = console.go()
    page.get_by_role("link", name="archive").first.wait_for()
    page = console.go("#/topic/public/default/orders")
    page.locator("canvas[data-group=billing]").wait_for()
    page = console.go("#/topic/public/default/orders?tab=messages")
    page.locator("details.message").first.wait_for()
    console.check()


def test_a_console_that_is_read_only_offers_no_change_and_may_make_none(open_console: Any) -> None:
    reset = "milepost/v1/topics/public/default/orders/subscriptions/group/reset"
    with scene(console_read_only=True) as made:
        publish(made, "orders", 3)
        made.admin.create_subscription("orders", "group")
        with served(made) as elsewhere:
            for url in (f"{made.broker.http_url}/console/", elsewhere):
                page = open_console(url).go("#/topic/public/default/orders")
                page.locator("canvas[data-group=group]").wait_for()
                assert page.locator("#read-only").inner_text() == "Read only"
                assert page.get_by_label("Allow changes").count() == 0
                assert page.get_by_role("button", name="Reset…").count() == 0
                told = page.evaluate(
                    """async path => (await import('./api.js')).post(path, {index: 0})
                        .catch(error => [error.status, error.message])""",
                    reset,
                )
                assert told == [403, "the console is read only here (console_read_only)"]
        made.admin.skip_all_messages("orders", "group")  # a command may
