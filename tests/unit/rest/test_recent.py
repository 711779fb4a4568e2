"""Answers that are up to a second old: for the same question by the same caller, and for no other."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from stage.frames import message
from stage.http import Request, Web, call
from starlette.types import Message, Receive, Scope, Send

from milepost.rest.recent import AGE_MAX_S, KEPT_MAX, SIZE_MAX, Recent
from milepost.rest.route_access import CERTIFICATE

TOLERANT = (b"cache-control", b"max-age=1")
PATH = "/milepost/v1/overview"


class Counting:
    """An application whose answer is how often it was asked; it can be made to wait."""

    def __init__(self) -> None:
        self.asked = 0
        self.status = 200
        self.size = 1
        self.may_answer = asyncio.Event()
        self.may_answer.set()
        self.now_s = 0.0
        self.recent = Recent(self, lambda: self.now_s, lambda: True)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.asked += 1
        body = b"%d" % self.asked
        await self.may_answer.wait()
        await send({"type": "http.response.start", "status": self.status, "headers": []})
        await send({"type": "http.response.body", "body": body.ljust(self.size)})

    async def ask(
        self,
        *headers: tuple[bytes, bytes],
        path: str = PATH,
        query: bytes = b"",
        method: str = "GET",
        **more: object,
    ) -> str:
        messages: list[Message] = []

        async def send(message: Message) -> None:
            messages.append(message)

        scope = {"type": "http", "method": method, "path": path, "query_string": query, **more}
        await self.recent({**scope, "headers": list(headers)}, _never, send)
        return str(messages[1]["body"].decode().strip())


async def _never() -> Message:
    raise AssertionError("a GET has no body")


def test_the_same_question_within_a_second_is_answered_once() -> None:
    async def main() -> None:
        app = Counting()
        assert [await app.ask(TOLERANT) for _ in range(3)] == ["1"] * 3
        app.now_s = AGE_MAX_S + 0.1
        assert await app.ask(TOLERANT) == "2"

    asyncio.run(main())


@pytest.mark.parametrize("value", [b"max-age=1", b"max-age=30", b"no-transform, max-age=5"])
def test_a_client_says_that_it_would_take_an_older_answer(value: bytes) -> None:
    async def main() -> None:
        app = Counting()
        assert [await app.ask((b"cache-control", value)) for _ in range(2)] == ["1", "1"]

    asyncio.run(main())


@pytest.mark.parametrize(
    "headers",
    [
        (),
        ((b"cache-control", b"no-cache"),),
        ((b"cache-control", b"max-age=0"),),
        ((b"cache-control", b"no-cache, max-age=1"),),
    ],
    ids=["nothing said", "no-cache", "max-age=0", "no-cache and max-age"],
)
def test_another_client_is_told_what_is_true_now(headers: tuple[tuple[bytes, bytes], ...]) -> None:
    async def main() -> None:
        app = Counting()
        await app.ask(TOLERANT)
        assert [await app.ask(*headers) for _ in range(2)] == ["2", "3"]

    asyncio.run(main())


@pytest.mark.parametrize(
    "asked",
    [
        {"path": "/milepost/v1/topics"},
        {"query": b"limit=2"},
        {"path": "/admin/v2/clusters"},
        {"method": "POST"},
        {CERTIFICATE: {"subject": ()}},
    ],
    ids=str,
)
def test_another_question_is_asked(asked: dict[str, Any]) -> None:
    async def main() -> None:
        app = Counting()
        await app.ask(TOLERANT)
        assert await app.ask(TOLERANT, **asked) == "2"

    asyncio.run(main())


@pytest.mark.parametrize(
    "name", [b"authorization", b"x-pulsar-auth-method-name", b"cookie", b"x-of-the-future"]
)
def test_another_caller_gets_an_answer_of_its_own(name: bytes) -> None:
    async def main() -> None:
        app = Counting()
        answers = [await app.ask(TOLERANT, (name, who)) for who in (b"a", b"b", b"a")]
        assert answers == ["1", "2", "1"]
        assert await app.ask(TOLERANT) == "3"

    asyncio.run(main())


def test_a_refusal_or_a_large_answer_is_not_kept() -> None:
    async def main() -> None:
        app = Counting()
        app.status = 404
        assert [await app.ask(TOLERANT) for _ in range(2)] == ["1", "2"]
        app.status, app.size = 200, SIZE_MAX + 1
        assert [await app.ask(TOLERANT) for _ in range(2)] == ["3", "4"]

    asyncio.run(main())


def test_those_who_ask_at_once_wait_for_one_answer_though_the_first_hangs_up() -> None:
    async def main() -> None:
        app = Counting()
        app.may_answer.clear()
        first, *others = (asyncio.ensure_future(app.ask(TOLERANT)) for _ in range(10))
        await asyncio.sleep(0)
        first.cancel()
        await asyncio.sleep(0)
        app.may_answer.set()
        assert await asyncio.gather(*others) == ["1"] * 9
        assert first.cancelled()

    asyncio.run(main())


def test_the_newest_answers_are_kept_and_no_more() -> None:
    async def main() -> None:
        app = Counting()
        for number in range(KEPT_MAX + 1):
            await app.ask(TOLERANT, query=b"%d" % number)
        assert len(app.recent._kept) == KEPT_MAX
        assert await app.ask(TOLERANT, query=b"1") == "2"
        assert await app.ask(TOLERANT, query=b"0") == f"{KEPT_MAX + 2}"

    asyncio.run(main())


def test_the_console_and_a_script_ask_for_the_same_strip(web: Web) -> None:
    """What the console is told may be a second old; what a script is told is true now."""
    stage = web.stage
    topic = stage.topic()
    stage.subscription(topic, "s")
    producer = stage.producer(topic)
    stage.publish(producer, message(0))
    url = "/milepost/v1/topics/public/default/t/subscriptions/s/strip"

    def ready(**headers: str) -> int:
        answer = stage.run(call(web.app, Request("GET", url, headers=headers)))
        assert answer.status == 200, answer
        return sum(answer.json["ready"])

    assert ready(**{"cache-control": "max-age=1"}) == 1
    stage.publish(producer, message(1))
    assert ready(**{"cache-control": "max-age=1"}) == 1
    assert ready() == 2
