"""Makes the pictures of docs/console.md: python tests/console/screenshots.py docs/console"""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from playwright.sync_api import sync_playwright

from console.scene import fill_orders, scene

TOPIC = "#/topic/public/default/orders"
WIDE = {"width": 1180, "height": 720}
READY = "main table, canvas.strip, details.message"


def take(page: Any, folder: Path, name: str) -> None:
    # The console polls, so that the network is never idle: what is drawn late is given a moment.
    page.wait_for_timeout(1500)
    path = folder / f"{name}.png"
    page.screenshot(path=str(path))
    sys.stdout.write(f"{path}: {path.stat().st_size // 1000} kB\n")


def main(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    path = os.environ.get("MILEPOST_CHROMIUM") or shutil.which("chromium")
    if path is None:
        sys.exit("no Chromium: install Debian's package chromium, or set MILEPOST_CHROMIUM")
    with scene() as made, sync_playwright() as playwright:
        fill_orders(made)
        browser = playwright.chromium.launch(
            executable_path=path, chromium_sandbox=os.geteuid() != 0, args=["--disable-gpu"]
        )

        def opened(route: str, **options: Any) -> Any:
            context = browser.new_context(
                **{"viewport": WIDE, "locale": "en-GB", "timezone_id": "Europe/Berlin", **options}
            )
            page = context.new_page()
            page.goto(made.url + route)
            page.locator(READY).first.wait_for()
            return page

        take(opened("#/"), folder, "overview")
        take(opened("#/topics"), folder, "topics")
        take(opened(TOPIC), folder, "positions")
        page = opened(f"{TOPIC}?first=480&end=560&group=billing")
        page.wait_for_timeout(1500)
        page.locator("canvas[data-group=billing]").hover(position={"x": 240, "y": 30})
        take(page, folder, "zoomed")
        page = opened(f"{TOPIC}?group=billing")
        page.get_by_label("Allow changes").check()
        page.get_by_role("button", name="Reset…").first.click()
        page.get_by_label("Where to").fill("1200")
        take(page, folder, "reset")
        page = opened(f"{TOPIC}?tab=messages&from=index&at=500")
        page.locator("details.message").first.locator("summary").click()
        take(page, folder, "messages")
        take(opened(f"{TOPIC}?tab=clients"), folder, "clients")
        take(opened(f"{TOPIC}?tab=about"), folder, "about")
        take(opened(TOPIC, color_scheme="dark"), folder, "dark")
        narrow = {"width": 360, "height": 720}
        take(opened(TOPIC, viewport=narrow), folder, "narrow")
        browser.close()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
