"""Progress over the admin client: which path, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest
from unit.admin.conftest import Played

from milepost.admin import progress
from milepost.admin.errors import BadAnswer
from milepost.admin.face import SyncFace

LINE = {"topic": "t", "ready": 1}


@pytest.mark.parametrize(
    ("asked", "target"),
    [
        ({}, "/milepost/v1/progress"),
        ({"subscription": "a/b"}, "/milepost/v1/progress?subscription=a%2Fb"),
        ({"namespace": "a/b"}, "/milepost/v1/namespaces/a/b/progress"),
        ({"topic": "persistent://a/b/c"}, "/milepost/v1/topics/a/b/c/progress"),
    ],
)
def test_where_it_is_asked_for(asked: dict[str, Any], target: str) -> None:
    transport = Played({"at_ms": 1, "subscriptions": [LINE]})
    assert SyncFace(transport).run(progress.get_progress(**asked)) == [LINE]
    assert [request.target for request in transport.asked] == [target]


@pytest.mark.parametrize("answer", [{}, {"subscriptions": 1}, {"subscriptions": [1]}])
def test_an_answer_that_is_none(answer: dict[str, Any]) -> None:
    with pytest.raises(BadAnswer, match="not the progress"):
        SyncFace(Played(answer)).run(progress.get_progress())


STATES = {state: [1] for state in progress.STATES}


def test_a_strip() -> None:
    transport = Played({**STATES, "columns": 1})
    face = SyncFace(transport)
    assert face.run(progress.get_strip("orders", "a/b", first=0, columns=1))["acked"] == [1]
    assert transport.asked[0].target == (
        "/milepost/v1/topics/public/default/orders/subscriptions/a%2Fb/strip?first=0&columns=1"
    )


@pytest.mark.parametrize(
    "answer", [{}, {**STATES, "columns": 2}, {**STATES, "columns": 1, "ready": 3}]
)
def test_a_strip_that_is_none(answer: dict[str, Any]) -> None:
    with pytest.raises(BadAnswer, match="not the strip"):
        SyncFace(Played(answer)).run(progress.get_strip("orders", "billing"))


def test_an_overview_and_topics_of_all_or_of_a_namespace() -> None:
    transport = Played({"lines": []}, {"lines": []}, {"topics": []}, {"topics": []}, {}, {})
    face = SyncFace(transport)
    face.run(progress.get_overview())
    face.run(progress.get_overview(namespace="a/b", limit=5))
    face.run(progress.search_topics(search="x"))
    face.run(progress.search_topics(namespace="a/b", after="y", limit=7))
    assert [request.target for request in transport.asked] == [
        "/milepost/v1/overview",
        "/milepost/v1/namespaces/a/b/overview?limit=5",
        "/milepost/v1/topics?search=x",
        "/milepost/v1/namespaces/a/b/topics?after=y&limit=7",
    ]
    with pytest.raises(BadAnswer, match="not an overview"):
        face.run(progress.get_overview())
    with pytest.raises(BadAnswer, match="not a list of topics"):
        face.run(progress.search_topics())
