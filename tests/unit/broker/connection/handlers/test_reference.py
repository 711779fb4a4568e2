"""docs/wire.md says what the handlers say."""

from __future__ import annotations

from pathlib import Path

from milepost.broker.connection.handlers import HANDLERS
from milepost.broker.connection.handlers.reference import ELSEWHERE, page
from milepost.wire.commands import FROM_CLIENT

DOCS = Path(__file__).parents[5] / "docs"


def test_the_page_is_what_the_handlers_say() -> None:
    made_by = "python -m milepost.broker.connection.handlers.reference > docs/wire.md"
    assert (DOCS / "wire.md").read_text() == page(), f"make it again: {made_by}"


def test_every_command_of_a_client_is_answered_by_somebody() -> None:
    assert set(FROM_CLIENT) == set(HANDLERS) | set(ELSEWHERE)
    assert not set(HANDLERS) & set(ELSEWHERE)
