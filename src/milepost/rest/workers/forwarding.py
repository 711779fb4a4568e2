"""Takes a request to the worker that has its topic, or to all of them.

    a path that names a topic          ─▶ the worker that has the topic
    lists, progress, health, unload …  ─▶ every worker; their answers become one (`everywhere.py`)
    what several workers cannot do     ─▶ 405, and why
    tenants, namespaces, policies …    ─▶ here: the registry has them, and every worker knows it

A worker that is being started again, or whose shard moves to another broker, is waited for. What was asked of
one that died over it is asked again if it changes nothing (GET); else the client is told that it may have
been carried out, as it is when a worker hangs over it. A worker that does not answer makes the whole answer a
503 that names it: half a list would look like a whole one. Only metrics are told without it. A change that
some workers have made, and one has not, says so.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from fastapi.routing import APIRoute
from starlette.types import ASGIApp, Receive, Scope, Send

from milepost.broker.workers.link import Answer as LinkAnswer
from milepost.errors import CallCut, MilepostError, ServiceNotReady, ShardAway
from milepost.positions.names import PERSISTENT, TopicName
from milepost.rest.request import ADMIN
from milepost.rest.workers import metrics
from milepost.rest.workers.everywhere import (
    EVERYWHERE,
    OF_COORDINATOR,
    OVERVIEWS,
    REFUSED,
    TRANSACTIONS,
    Merge,
    query_of,
    refusal,
)
from milepost.rest.workers.exchange import (
    FORWARDED,
    Answer,
    Doc,
    answer_of,
    body_of,
    document_of,
    json_answer,
    scope_of,
)

if TYPE_CHECKING:
    from milepost.broker.broker import Broker
    from milepost.broker.workers.workers import Workers

# A request may wait for a worker that is being started again, and then for the disk. Of one that hangs the
# asking client hears within a quarter of that.
TIMEOUT_S: Final = 60.0
# A question to all of them: who asks is to be told which one hangs, and clients wait for a minute at most.
QUESTION_TIMEOUT_S: Final = 15.0
# Who watches them gives up after ten seconds, and would see nothing of the others either.
WATCH_TIMEOUT_S: Final = 5.0
# How long a call waits for the next owner of a shard, or for a worker that is started again.
AWAY_S: Final = 15.0
# Between two attempts.
GLANCE_S: Final = 0.05
# The largest page of an overview.
PAGE_MAX: Final = 200

METRICS: Final = ("/metrics", "/metrics/")
# With it an unload is a move.
DESTINATION: Final = "destinationBroker"
HEALTH: Final = f"{ADMIN}/brokers/health"
# The query of requests that may be about one coordinator.
COORDINATOR: Final = "coordinatorId"
# They name a topic, and every worker can answer them.
LOOKUPS: Final = "/lookup/"
# Methods that change nothing: what they ask for may be asked twice.
ASKING: Final = ("GET", "HEAD")
# Behind the reason of one that has not made a change.
_OTHERS: Final = "; other workers have carried it out"
# In place of an answer: the request is about the shard of this worker.
HERE: Final = Answer(0, [], b"")


class Forwarding:
    def __init__(
        self, app: ASGIApp, broker: Broker, whole: ASGIApp, routes: Sequence[APIRoute]
    ) -> None:
        """`app` is what comes behind this, `whole` the application that this is part of."""
        assert broker.workers is not None, "a broker without workers answers everything itself"
        self._app = app
        self._whole = whole
        self._workers: Workers = broker.workers
        self._clock = broker.clock
        self._routes = routes
        self._engine = broker.engine
        self._check_served = broker.check_served
        self._workers.link.answers |= {"http": self._answer, "metrics": self._answer}

    async def _answer(self, document: Doc, body: bytes) -> LinkAnswer:
        """A request that another worker has taken."""
        with self._workers.gate:
            answer = await answer_of(self._whole, scope_of(document), body)
        return answer.document(), answer.body

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope.get(FORWARDED):
            await self._app(scope, receive, send)
            return
        try:
            answer = await self._elsewhere(scope, receive)
        except MilepostError as error:
            answer = json_answer(error.http_status, {"reason": str(error)})
        if answer is None:
            await self._app(scope, receive, send)
        elif answer is HERE:
            with self._workers.gate:
                await self._app(scope, receive, send)
        else:
            await answer.send(send)

    async def _elsewhere(self, scope: Scope, receive: Receive) -> Answer | None:
        """The answer, if this worker cannot give it by itself; `HERE` if only it can, while it has its
        shard."""
        method, path = scope["method"], scope["path"]
        if method == "GET" and path in METRICS:
            return await self._metrics(scope)
        found = self._found(method, path)
        if found is None:
            return None
        template, values = found
        if (method, template) in REFUSED:
            return json_answer(405, {"reason": REFUSED[method, template]})
        if template.endswith("/unload") and query_of(scope["query_string"]).get(DESTINATION):
            return None  # a move: each worker that has a shard of it ends on the way
        coordinator = values.get("mostSigBits") if (method, template) in OF_COORDINATOR else None
        if path.startswith(TRANSACTIONS) and coordinator is None:
            coordinator = query_of(scope["query_string"]).get(COORDINATOR)
        if coordinator is not None:
            return await self._at_coordinator(coordinator, scope, receive)
        merge = EVERYWHERE.get((method, template))
        if merge is not None:
            return await self._everywhere(scope, await body_of(receive), template, merge)
        if "topic" not in values or path.startswith(LOOKUPS):
            return None
        owner = self._owner(values)
        if owner is None:
            return None
        if owner == self._workers.number and self._workers.gate.is_open:
            return HERE
        return await self._at(owner, scope, await body_of(receive))

    def _found(self, method: str, path: str) -> tuple[str, dict[str, str]] | None:
        """The route of a request, and what its path names."""
        for route in self._routes:
            if method in (route.methods or ()) and (match := route.path_regex.match(path)):
                return route.path, match.groupdict()
        return None

    async def _at_coordinator(self, text: str, scope: Scope, receive: Receive) -> Answer | None:
        """What the worker of a coordinator answers; a number of none is refused here."""
        # Python reads no number of thousands of digits.
        number = int(text) if text.isdecimal() and len(text) < 10 else -1
        if number not in self._all or number == self._workers.number:
            return None
        return await self._at(number, scope, await body_of(receive))

    def _owner(self, values: dict[str, str]) -> int | None:
        """The worker of a topic; None for a text that is no name, which is refused here."""
        domain = values.get("domain", PERSISTENT)
        try:
            name = TopicName.parse(
                f"{domain}://{values['tenant']}/{values['namespace']}/{values['topic']}"
            )
        except MilepostError:
            return None
        return self._workers.placement.shard_of(name)

    async def _at(
        self, number: int, scope: Scope, body: bytes, timeout_s: float | None = None
    ) -> Answer:
        """What a worker answers, which may be another by then."""
        until = self._clock.monotonic() + (AWAY_S if timeout_s is None else timeout_s)
        while True:
            left_s = None if timeout_s is None else max(until - self._clock.monotonic(), GLANCE_S)
            try:
                return await self._once(number, scope, body, left_s)
            except ServiceNotReady as error:
                is_begun = not isinstance(error, ShardAway)
                if is_begun and scope["method"] not in ASKING:
                    # A worker that hung carries it out when it goes on.
                    raise type(error)(f"{error}: it may have been carried out") from None
                # A broker that is cut off from the bucket hears of no next owner.
                is_repeated = isinstance(error, (ShardAway, CallCut)) and self._engine.may_serve
                if not is_repeated or self._clock.monotonic() >= until:
                    raise
            await asyncio.sleep(GLANCE_S)

    async def _once(
        self, number: int, scope: Scope, body: bytes, timeout_s: float | None
    ) -> Answer:
        gate = self._workers.gate
        if number == self._workers.number and gate.is_open:
            with gate:
                return await answer_of(self._whole, scope_of(document_of(scope)), body)
        link, document = self._workers.link, document_of(scope)
        # Metrics are told also by a process that is cut off from the bucket.
        kind = "metrics" if scope["path"] in METRICS else "http"
        if timeout_s is None:
            said = await link.ask_while_alive(number, kind, document, body, TIMEOUT_S)
        else:
            said = await link.ask(number, kind, document, body, timeout_s)
        return Answer.of_document(*said)

    @property
    def _all(self) -> range:
        return range(self._workers.placement.count)

    async def _everywhere(self, scope: Scope, body: bytes, template: str, merge: Merge) -> Answer:
        query = query_of(scope["query_string"])
        if scope["method"] not in ASKING:
            # Else the others would have done what this worker then says was not done.
            self._check_served()
        if template in OVERVIEWS and {"skip", "limit"} & query.keys():
            checked = await self._at(self._workers.number, scope, body)
            if checked.status >= 400:  # numbers that are none
                return checked
        if template in OVERVIEWS:
            answers = await self._overviews(scope, query)
        else:
            answers = await self._each(scope, body)
        refused = refusal(answers)
        if refused is None:
            return merge([one for one in answers if one.status < 400] or answers, query)
        if any(_is_done(scope, one) for one in answers):
            return json_answer(refused.status, {"reason": f"{refused.json['reason']}{_OTHERS}"})
        return refused

    async def _each(self, scope: Scope, body: bytes) -> list[Answer]:
        timeout_s = None
        if scope["method"] == "GET":
            timeout_s = WATCH_TIMEOUT_S if scope["path"] == HEALTH else QUESTION_TIMEOUT_S
        said = await asyncio.gather(
            *(self._at(number, scope, body, timeout_s) for number in self._all),
            return_exceptions=True,
        )
        missing = [str(one) for one in said if isinstance(one, MilepostError)]
        if missing:
            is_done = any(isinstance(one, Answer) and _is_done(scope, one) for one in said)
            raise ServiceNotReady("; ".join(missing) + (_OTHERS if is_done else ""))
        answers: list[Answer] = []
        for one in said:
            if isinstance(one, BaseException):
                raise one
            answers.append(one)
        return answers

    async def _overviews(self, scope: Scope, query: dict[str, str]) -> list[Answer]:
        """A page of the whole may be of one worker: each shows all up to its end."""
        end = int(query.get("skip", 0)) + int(query.get("limit", 50))
        answers: list[Answer] = []
        for skip in range(0, end, PAGE_MAX):
            page = b"skip=%d&limit=%d" % (skip, PAGE_MAX)
            answers += await self._each({**scope, "query_string": page}, b"")
            if any(one.status >= 400 for one in answers[-len(self._all) :]):
                break
        return _joined(answers, len(self._all))

    async def _metrics(self, scope: Scope) -> Answer | None:
        """Of all workers of this broker; other brokers of a cluster have their own."""
        near, own = self._workers.placement.near, self._workers.number
        said = await asyncio.gather(
            *(self._at(number, scope, b"", WATCH_TIMEOUT_S) for number in near),
            return_exceptions=True,
        )
        answers = dict(zip(near, said, strict=True))
        mine = answers[own]
        if isinstance(mine, BaseException):
            raise mine
        if mine.status != 200:
            return mine
        texts = {
            number: one.body.decode() if isinstance(one, Answer) and one.status == 200 else None
            for number, one in answers.items()
        }
        # A thousand topics are a hundred thousand lines: not on the loop.
        whole = await asyncio.to_thread(metrics.merged, texts)
        return Answer(200, mine.headers, whole.encode())


def _is_done(scope: Scope, answer: Answer) -> bool:
    """Has a worker changed something? What would be changed is told in a 200, and to give up a bundle without
    topics (DELETE) changes nothing."""
    return answer.status == 204 and scope["method"] != "DELETE"


def _joined(answers: list[Answer], workers: int) -> list[Answer]:
    """Pages of each worker as one answer of each: the numbers of the first, the lines of all."""
    if any(one.status >= 400 for one in answers):
        return answers[-workers:]
    joined: list[Answer] = []
    for number in range(workers):
        pages = [one.json for one in answers[number::workers]]
        lines = [line for page in pages for line in page["lines"]]
        joined.append(json_answer(200, {**pages[0], "lines": lines}))
    return joined
