"""Chromium, driven by Playwright; the tests are skipped, with the reason, where there is none."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import pytest

from console.scene import Scene, fill_hostile, fill_orders, scene

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

PATIENCE_MS = 60_000
# What keeps a browser from calling home: where there is no network, each try takes a while.
QUIET = (
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)


def chromium() -> str:
    """The browser's path, or a skip that says what is missing."""
    named = os.environ.get("MILEPOST_CHROMIUM")
    found = named or shutil.which("chromium") or shutil.which("chromium-browser")
    if not found:
        pytest.skip("no Chromium: install Debian's package chromium, or set MILEPOST_CHROMIUM")
    return found


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Of one module: while it runs, Playwright has the thread's event loop, and other tests want one."""
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    path = chromium()
    with playwright.sync_playwright() as running:
        try:
            started = running.chromium.launch(
                executable_path=path, chromium_sandbox=os.geteuid() != 0, args=list(QUIET)
            )
        except playwright.Error as error:
            pytest.skip(f"Chromium does not start: {str(error).splitlines()[0]}")
        yield started
        started.close()


@pytest.fixture(scope="module")
def orders() -> Iterator[Scene]:
    with scene() as made:
        fill_orders(made)
        fill_hostile(made)
        yield made


class Console:
    """A page of the console, and what went wrong on it."""

    def __init__(self, page: Page, url: str) -> None:
        self.page = page
        self.url = url
        self.faults: list[str] = []
        page.set_default_timeout(PATIENCE_MS)
        page.on("pageerror", lambda error: self.faults.append(str(error)))
        page.on(
            "console",
            lambda line: self.faults.append(line.text) if line.type == "error" else None,
        )

    def go(self, route: str = "#/") -> Page:
        self.page.goto(self.url + route)
        return self.page

    def until(self, is_so: Callable[[], object]) -> None:
        """Look until it is so; the page goes on between two looks."""
        late = time.monotonic() + PATIENCE_MS / 1000
        while not is_so():
            assert time.monotonic() < late, f"not so after {PATIENCE_MS} ms"
            self.page.wait_for_timeout(20)

    def check(self) -> None:
        """Nothing failed, and nothing ran that a message or a name brought."""
        assert self.faults == []
        assert self.page.evaluate("window.hit") is None


@pytest.fixture
def open_console(browser: Browser) -> Iterator[Any]:
    contexts = []

    def open_it(url: str, **options: Any) -> Console:
        context = browser.new_context(
            **{"locale": "en-GB", "timezone_id": "Europe/Berlin", **options}
        )
        contexts.append(context)
        return Console(context.new_page(), url)

    yield open_it
    for context in contexts:
        context.close()


@pytest.fixture
def console(open_console: Any, orders: Scene) -> Iterator[Console]:
    opened = open_console(orders.url, viewport={"width": 1280, "height": 900})
    yield opened
    opened.check()
