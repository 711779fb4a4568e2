"""The page about the routes: all of them, found by words, with what each takes and gives."""

from __future__ import annotations

import json
import urllib.request
from typing import Any

import pytest

from console.conftest import Console
from console.scene import Scene


def described(orders: Scene) -> dict[str, Any]:
    with urllib.request.urlopen(f"{orders.broker.http_url}/openapi.json") as answer:
        found: dict[str, Any] = json.load(answer)
    return found


def test_every_route_is_there_and_found_by_words(console: Console, orders: Scene) -> None:
    page = console.page
    page.goto(f"{orders.broker.http_url}/docs")
    page.locator("details").first.wait_for()
    routes = {
        f"{method.upper()} {path}"
        for path, methods in described(orders)["paths"].items()
        for method in methods
    }
    assert set(page.locator("summary").all_inner_texts()) == routes
    page.get_by_label("Find a route").fill("get strip messages")
    assert page.locator("summary").all_inner_texts() == [
        "GET /milepost/v1/topics/{tenant}/{namespace}/{topic}/subscriptions/{subscription}/strip/messages"
    ]
    page.locator("summary").click()
    # A route is drawn when it is opened, which the browser tells a moment later.
    page.locator(".route").get_by_text("Single messages of a range").wait_for()
    assert page.get_by_role("cell", name="messages[].state", exact=True).is_visible()
    assert page.locator("table").first.get_by_role("cell", name="subscription").is_visible()
    page.get_by_label("Find a route").fill("no such words")
    assert page.get_by_text("No route has these words.").is_visible()
    console.check()


@pytest.mark.parametrize("width", [360, 3840])
def test_it_fits_the_screen_and_axe_finds_nothing(
    open_console: Any, orders: Scene, width: int
) -> None:
    axe = pytest.importorskip("axe_playwright_python.sync_playwright").Axe()
    console = open_console(
        orders.url, viewport={"width": width, "height": 800}, bypass_csp=True, color_scheme="dark"
    )
    page = console.page
    page.goto(f"{orders.broker.http_url}/docs")
    page.get_by_label("Find a route").fill("progress")
    page.locator("summary").first.click()
    page.locator(".route table").first.wait_for()
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    found = axe.run(page).response["violations"]
    assert [one["id"] for one in found if one["impact"] in ("serious", "critical")] == []
