"""The words by which rights are judged."""

from __future__ import annotations

import pytest

from milepost.broker.auth.operations import Action, Operation, Scope


@pytest.mark.parametrize("operation", Operation)
def test_an_operation_says_what_it_is_done_to_and_what_it_means(operation: Operation) -> None:
    assert isinstance(operation.scope, Scope)
    assert operation.meaning
    # What is done to nothing, or to the broker as a whole, cannot be granted.
    if operation.scope in (Scope.NOTHING, Scope.BROKER, Scope.TENANT):
        assert not operation.actions


def test_looking_up_takes_either_right_and_using_takes_its_own() -> None:
    assert set(Operation.LOOK_UP.actions) == {Action.PRODUCE, Action.CONSUME}
    assert Operation.PRODUCE.actions == (Action.PRODUCE,)
    assert Operation.CONSUME.actions == (Action.CONSUME,)


def test_actions_have_upstreams_names() -> None:
    names = {"produce", "consume", "functions", "sources", "sinks", "packages"}
    assert set(Action) == names
