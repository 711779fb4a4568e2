"""Routes the lookup by index past the framework's search for a route.

`getMessageIdByIndex` is a route like any other: described, guarded and tested as such. Here it is only
found sooner: half of its time was the framework's way from a path to a function (`python -m bench rest`).
The right to ask is checked by the route's own `Need`, and errors are said by the application's own words.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable

from fastapi import Request, Response
from starlette.types import ASGIApp, Receive, Scope, Send

from milepost.broker.auth.operations import Operation
from milepost.errors import MilepostError
from milepost.rest.express import BY_INDEX
from milepost.rest.resources.message_ids import get_message_id_by_index
from milepost.rest.route_access import Need

_SUFFIX = f"/{BY_INDEX}"
_PATH = re.compile(
    r"/admin/v2/(?P<domain>persistent|non-persistent)/(?P<tenant>[^/]+)/(?P<namespace>[^/]+)"
    rf"/(?P<topic>[^/]+){_SUFFIX}"
)
_NEED = Need(Operation.CONSUME)

Refuse = Callable[[Request, Exception], Awaitable[Response]]


class Shortcut:
    def __init__(self, app: ASGIApp, refuse: Refuse) -> None:
        self._app = app
        self._refuse = refuse

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and scope["path"].endswith(_SUFFIX) and scope["method"] == "GET":
            match = _PATH.fullmatch(scope["path"])
            if match is not None:
                request = Request({**scope, "path_params": match.groupdict()}, receive)
                response = await self._respond(request)
                await response(scope, receive, send)
                return
        await self._app(scope, receive, send)

    async def _respond(self, request: Request) -> Response:
        try:
            await _NEED(request)
            return await get_message_id_by_index(request)
        except MilepostError as error:
            return await self._refuse(request, error)
