"""Which level decides."""

from __future__ import annotations

import pytest

from milepost.broker.policies.policy import Level, Of, Policy, Route, merged
from milepost.broker.policies.shapes import Whole
from milepost.broker.settings.settings import Settings

POLICY = Policy(
    name="p",
    doc="",
    shape=Whole(0, 9),
    default=Of("port"),
    namespace=Route(path="n"),
)


@pytest.mark.parametrize(
    ("namespace", "topic", "holds"),
    [
        ({}, {}, 7),
        ({"p": 1}, {}, 1),
        ({}, {"p": 2}, 2),
        ({"p": 1}, {"p": 2}, 2),
        ({"p": 1}, {"q": 2}, 1),
        ({"p": 1}, {"p": 0}, 0),  # a topic may lift what its namespace limits
        ({"p": None}, {}, 7),
    ],
)
def test_the_nearest_that_says_anything_decides(
    namespace: dict[str, int], topic: dict[str, int], holds: int
) -> None:
    assert merged(POLICY, Settings(port=7), namespace, topic) == holds


def test_a_policy_has_a_route_where_it_can_be_set() -> None:
    assert POLICY.route(Level.NAMESPACE) == Route(path="n")
    assert POLICY.route(Level.TOPIC) is None


def test_a_default_has_its_settings_in_their_places() -> None:
    default = {"a": Of("port"), "b": 1, "c": [Of("cluster_name")]}
    policy = Policy(name="p", doc="", shape=Whole(0, 9), default=default)
    settings = Settings(port=7, cluster_name="c1")
    assert policy.default_by(settings) == {"a": 7, "b": 1, "c": ["c1"]}
    assert policy.settings == ["port"]
