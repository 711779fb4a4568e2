"""The page about policies is made from the table."""

from __future__ import annotations

from pathlib import Path

from milepost.broker.policies.reference import page
from milepost.broker.policies.table import TABLE

PAGE = Path(__file__).parents[4] / "docs" / "policies.md"


def test_the_page_is_what_the_table_says() -> None:
    assert PAGE.read_text() == page(), "make docs"


def test_every_policy_has_its_row() -> None:
    for policy in TABLE:
        assert f"| `{policy.name}` |" in page()
