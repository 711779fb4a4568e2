"""Answers that are up to a second old, for clients that say they would take them.

Ten people who look at one topic in the console ask for the same strip ten times a second, and counting it
takes milliseconds that those who publish wait for. So the console asks with `Cache-Control: max-age=1`, and
what was answered to one of them within the last second is the answer to all. A client that does not say so is
told what is true now.

Only for `GET /milepost/v1/…` that ends in a 200, and only for the same question by the same caller: whatever
a header may say about who asks is part of the question. An answer to a connection with a client certificate
is not kept.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from typing import Final, NamedTuple

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from milepost.broker.auth.certificates import CERTIFICATE

AGE_MAX_S: Final = 1.0
KEPT_MAX: Final = 64
SIZE_MAX: Final = 256 * 1024
_PREFIX: Final = b"/milepost/v1/"
_MAX_AGE: Final = re.compile(
    rb"(?!.*no-(?:cache|store))(?:.*[,\s])?max-age=0*[1-9][0-9]{0,9}(?:[,\s].*)?"
)
# Headers that change no answer.
_PLAIN: Final = frozenset(
    (
        *(
            b"host",
            b"connection",
            b"user-agent",
            b"cache-control",
            b"pragma",
            b"referer",
            b"origin",
        ),
        *(b"accept", b"accept-encoding", b"accept-language", b"dnt", b"priority", b"te"),
    )
)

_Question = tuple[bytes, bytes, tuple[tuple[bytes, bytes], ...]]


class _Kept(NamedTuple):
    began_s: float
    answer: asyncio.Future[list[Message]]


class Recent:
    def __init__(
        self, app: ASGIApp, now_s: Callable[[], float], may_serve: Callable[[], bool]
    ) -> None:
        """While the broker may not serve, what was answered may be old by more than `now_s` knows: the
        machine may have been suspended."""
        self._app = app
        self._now_s = now_s
        self._may_serve = may_serve
        # Oldest first.
        self._kept: dict[_Question, _Kept] = {}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        question = _question(scope)
        if question is None or not self._may_serve():
            await self._app(scope, receive, send)
            return
        now_s = self._now_s()
        kept = self._kept.get(question)
        if kept is None or now_s - kept.began_s > AGE_MAX_S:
            kept = _Kept(now_s, asyncio.ensure_future(self._ask(scope, question)))
            self._kept.pop(question, None)
            self._kept[question] = kept
            while len(self._kept) > KEPT_MAX:
                del self._kept[next(iter(self._kept))]
        # Others wait for the same answer, though this client may hang up.
        for message in await asyncio.shield(kept.answer):
            await send(message)

    async def _ask(self, scope: Scope, question: _Question) -> list[Message]:
        messages: list[Message] = []

        async def note(message: Message) -> None:
            messages.append(message)

        is_good = False
        try:
            await self._app(scope, _no_body, note)
            size = sum(len(message.get("body", b"")) for message in messages)
            is_good = messages[0]["status"] == 200 and size <= SIZE_MAX
        finally:
            if not is_good:
                self._kept.pop(question, None)
        return messages


async def _no_body() -> Message:
    return {"type": "http.request", "body": b"", "more_body": False}


def _question(scope: Scope) -> _Question | None:
    """The request and its caller, as a key; None if the client wants an answer that is made for it."""
    if scope["type"] != "http" or scope["method"] != "GET" or scope.get(CERTIFICATE) is not None:
        return None
    path: bytes = scope.get("raw_path") or scope["path"].encode()
    headers: list[tuple[bytes, bytes]] = scope["headers"]
    if not path.startswith(_PREFIX) or not any(
        name == b"cache-control" and _MAX_AGE.fullmatch(value) for name, value in headers
    ):
        return None
    told = [one for one in headers if one[0] not in _PLAIN and not one[0].startswith(b"sec-")]
    return path, scope["query_string"], tuple(told)
