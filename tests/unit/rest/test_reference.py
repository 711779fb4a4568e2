"""The page about REST is current."""

from __future__ import annotations

from pathlib import Path

from milepost.rest.app import RESOURCES
from milepost.rest.reference import page

ROOT = Path(__file__).resolve().parents[3]


def test_the_page_is_what_the_routes_say() -> None:
    made_by = "python -m milepost.rest.reference > docs/rest.md"
    assert (ROOT / "docs/rest.md").read_text("utf-8") == page(), f"make it again: {made_by}"


def test_every_route_is_on_it() -> None:
    text = page()
    for resource in RESOURCES:
        for route in resource.router.routes:
            if route.include_in_schema:  # type: ignore[attr-defined]
                assert f" {route.path_format}\n" in text  # type: ignore[attr-defined]
