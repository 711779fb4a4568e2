"""Which function answers which command."""

from __future__ import annotations

import pytest

from milepost.broker.handlers.registry import HANDLERS, handles
from milepost.wire.commands import FROM_CLIENT, Kind


def test_every_handler_is_of_a_clients_command_and_says_what_it_honours() -> None:
    assert HANDLERS
    for kind, handler in HANDLERS.items():
        assert kind in FROM_CLIENT
        assert handler.kind == kind
        assert handler.doc.strip().endswith(".")


def test_a_command_has_one_handler() -> None:
    with pytest.raises(AssertionError, match="two handlers"):

        @handles(Kind.SEEK)
        def second(session: object, command: object) -> None:
            """Another."""


def test_a_handler_says_something_of_itself() -> None:
    kind = 9999
    with pytest.raises(AssertionError, match="says nothing"):

        @handles(kind)
        def silent(session: object, command: object) -> None: ...

    assert kind not in HANDLERS
