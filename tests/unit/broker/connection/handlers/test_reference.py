"""docs/wire.md says what the handlers say."""

from __future__ import annotations

from pathlib import Path

from milepost.broker.connection.handlers import EVENT_HANDLERS, HANDLERS
from milepost.broker.connection.handlers.reference import ANSWERED_BY_PROTOCOL, page
from milepost.wire.commands import FROM_CLIENT, Kind

DOCS = Path(__file__).parents[5] / "docs"


def test_the_page_is_what_the_handlers_say() -> None:
    made_by = "python -m milepost.broker.connection.handlers.reference > docs/wire.md"
    assert (DOCS / "wire.md").read_text() == page(), f"make it again: {made_by}"


def test_every_command_of_a_client_has_one_place_where_it_is_answered() -> None:
    """The protocol object answers PING and PONG; the folder lists everything else."""
    places = [*HANDLERS, *EVENT_HANDLERS, *ANSWERED_BY_PROTOCOL]
    assert sorted(places) == sorted(FROM_CLIENT)
    assert set(ANSWERED_BY_PROTOCOL) == {Kind.PING, Kind.PONG}


def test_a_list_of_behaviour_stays_a_list() -> None:
    flow = page().split("### FLOW")[1].split("\n\n")
    assert flow[1].startswith("Gives permits, counted in messages. Needs ")
    assert all(line.startswith(("- ", "  ")) for line in flow[2].splitlines())
    assert flow[2].count("\n- ") >= 3
