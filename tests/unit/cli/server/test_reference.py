"""The page about settings is the table of settings."""

from __future__ import annotations

from pathlib import Path

from milepost.broker.settings.settings import PULSAR_KEYS, TABLE
from milepost.cli.server.reference import page

PAGE = Path(__file__).parents[4] / "docs" / "configuration.md"


def test_the_page_is_up_to_date() -> None:
    remedy = "run: milepost config reference > docs/configuration.md"
    assert PAGE.read_text("utf-8") == page(), remedy


def test_every_setting_and_every_key_has_its_row() -> None:
    rows = [line for line in page().splitlines() if line.startswith("| `")]
    assert len(rows) == len(TABLE)
    assert all(row.count(" | ") == 4 for row in rows)
    assert all(f"`{key}`" in page() for key in PULSAR_KEYS)
