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
