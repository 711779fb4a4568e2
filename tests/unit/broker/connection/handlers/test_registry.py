"""Which function answers which command."""

from __future__ import annotations

import pytest
from stage.talk import command_class

from milepost.broker.auth.operations import Operation, Scope
from milepost.broker.connection.handlers.registry import HANDLERS, handles
from milepost.wire.commands import FROM_CLIENT, Kind, kind_name

# The field of a command that names what an operation is done to.
NAMED_BY = {Scope.NAMESPACE: "namespace", Scope.TOPIC: "topic"}


def test_every_handler_is_of_a_clients_command_and_says_what_it_honours() -> None:
    assert HANDLERS
    for kind, handler in HANDLERS.items():
        assert kind in FROM_CLIENT
        assert handler.kind == kind
        assert handler.doc.strip().endswith(".")


def test_a_command_has_one_handler() -> None:
    with pytest.raises(AssertionError, match="two handlers"):

        @handles(Kind.SEEK, needs=Operation.HELD)
        def second(session: object, command: object) -> None:
            """Another."""


def test_a_handler_says_something_of_itself() -> None:
    kind = 9999
    with pytest.raises(AssertionError, match="says nothing"):

        @handles(kind, needs=Operation.HELD)
        def silent(session: object, command: object) -> None: ...

    assert kind not in HANDLERS


def test_a_handler_without_a_rule_is_no_handler() -> None:
    with pytest.raises(TypeError, match="needs"):
        handles(9999)  # type: ignore[call-arg]


def test_a_command_names_what_its_operation_is_done_to() -> None:
    for kind, handler in HANDLERS.items():
        field = NAMED_BY.get(handler.needs.scope)
        fields = command_class(kind).DESCRIPTOR.fields_by_name
        assert field is None or field in fields, kind_name(kind)
