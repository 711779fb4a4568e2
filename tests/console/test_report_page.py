"""The page of `milepost pipeline progress` in a real browser, from a file: drawn, hovered and zoomed."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from unit.spark.pipelines.report.test_report import EVIL, tables

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

pytest.importorskip("pyarrow", reason="the extra milepost[spark] is not installed")


@pytest.fixture
def shown(browser: Browser, tmp_path: Path) -> Page:
    from milepost.spark.pipelines.report.report import write_report

    (path, *_) = write_report(tables(15), tmp_path)
    page = browser.new_page(viewport={"width": 1200, "height": 800})
    page.problems = []  # type: ignore[attr-defined]
    page.on("console", lambda told: page.problems.append(told.text))  # type: ignore[attr-defined]
    page.on("pageerror", lambda error: page.problems.append(str(error)))  # type: ignore[attr-defined]
    page.on("dialog", lambda dialog: page.problems.append(dialog.message))  # type: ignore[attr-defined]
    page.on("request", lambda one: page.problems.append(one.url))  # type: ignore[attr-defined]
    page.goto(path.as_uri())
    page.problems.remove(path.as_uri())  # type: ignore[attr-defined]
    return page


def points(page: Page) -> str:
    return str(page.locator(".chart polyline").first.get_attribute("points"))


def test_the_report_is_drawn_and_hovered_and_zoomed(shown: Page) -> None:
    page = shown
    verdict = page.locator("h1")
    assert verdict.inner_text() == "8 of 15 groups in trouble at the end"
    assert verdict.bounding_box()["y"] < 200  # type: ignore[index]
    charts = page.locator(".chart svg")
    assert charts.count() == 3 + 12
    assert page.locator(".chart[data-column=backlog] polyline").count() == 8
    # Legends stand beside the data.
    labels = page.locator(".chart[data-column=backlog] text.label").all_text_contents()
    assert len(labels) == 8
    assert any(EVIL[:20] in one for one in labels)
    assert page.locator(".chart[data-group='0'] polygon").count() == 4
    charts.first.scroll_into_view_if_needed()
    box = charts.first.bounding_box()
    assert box is not None
    page.mouse.move(box["x"] + 500, box["y"] + 80)
    tip = page.locator(".tip").first
    assert "on t: 1" in tip.inner_text()
    before = points(page)
    page.mouse.wheel(0, -300)
    page.wait_for_function(
        "before => document.querySelector('.chart polyline').getAttribute('points') !== before",
        arg=before,
    )
    page.mouse.dblclick(box["x"] + 500, box["y"] + 80)
    assert points(page) == before
    charts.first.focus()
    page.keyboard.press("+")
    assert points(page) != before
    page.keyboard.press("Home")
    assert points(page) == before
    assert page.problems == []  # type: ignore[attr-defined]
    page.close()


def test_the_report_fits_a_narrow_screen(shown: Page) -> None:
    page = shown
    page.set_viewport_size({"width": 360, "height": 700})
    page.wait_for_function("() => document.documentElement.scrollWidth <= 360")
    assert page.problems == []  # type: ignore[attr-defined]
    page.close()
