"""The shortcut says what the route says."""

from __future__ import annotations

import pytest
from stage.frames import batch, message
from stage.http import Request, Web, call

from milepost.rest.resources.message_ids import get_message_id_by_index, router
from milepost.rest.route_access import operation_of
from milepost.rest.shortcut import _NEED, Shortcut


def without_shortcut(monkeypatch: pytest.MonkeyPatch) -> None:
    async def pass_on(self: Shortcut, scope: object, receive: object, send: object) -> None:
        await self._app(scope, receive, send)  # type: ignore[arg-type]

    monkeypatch.setattr(Shortcut, "__call__", pass_on)


@pytest.mark.parametrize(
    "target",
    [
        "persistent/public/default/t/getMessageIdByIndex?index=2",
        "persistent/public/default/t/getMessageIdByIndex?index=2&precise=true",
        "persistent/public/default/t/getMessageIdByIndex?index=9",
        "persistent/public/default/t/getMessageIdByIndex",
        "persistent/public/default/none/getMessageIdByIndex?index=2",
        "persistent/public/a$b/t/getMessageIdByIndex?index=2",
        "non-persistent/public/default/t/getMessageIdByIndex?index=2",
        "queue/public/default/t/getMessageIdByIndex?index=2",
        "persistent/public/default/a/t/getMessageIdByIndex?index=2",
        "persistent/public/default/%D1%82/getMessageIdByIndex?index=2",
    ],
)
def test_both_ways_are_one(web: Web, monkeypatch: pytest.MonkeyPatch, target: str) -> None:
    stage = web.stage
    stage.publish(stage.producer(stage.topic()), message(0), batch(1, 3))
    requests = [Request(method, f"/admin/v2/{target}") for method in ("GET", "HEAD", "PUT")]
    short = [stage.run(call(web.app, one)) for one in requests]
    without_shortcut(monkeypatch)
    assert [stage.run(call(web.app, one)) for one in requests] == short


def test_the_right_that_is_needed_is_the_routes() -> None:
    (route,) = [one for one in router.routes if one.endpoint is get_message_id_by_index]  # type: ignore[attr-defined]
    assert operation_of(route) is _NEED.operation  # type: ignore[arg-type]
