"""The console that `milepost console` serves for another broker is the same console."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pytest

from console.scene import Scene
from milepost.cli.server.console import make_server
from milepost.client.connection.endpoint import Endpoint


@pytest.fixture
def address(orders: Scene) -> Iterator[str]:
    server = make_server(Endpoint(admin_url=orders.broker.http_url), 0)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/console/"
    server.shutdown()
    thread.join()
    server.server_close()


def test_its_views_show_the_other_broker(open_console: Any, address: str) -> None:
    console = open_console(address)
    page = console.go()
    page.get_by_role("link", name="archive").first.wait_for()
    page = console.go("#/topic/public/default/orders")
    page.locator("canvas[data-group=billing]").wait_for()
    page = console.go("#/topic/public/default/orders?tab=messages")
    page.locator("details.message").first.wait_for()
    console.check()
