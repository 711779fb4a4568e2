"""Answers the pages for an Apache Pulsar: which path is made from which calls.

    pulsar = Pulsar(endpoint, read_only=False)
    pulsar.answer("GET", "/milepost/v1/session", authorization, None)     # None: pass it on as it is

Calls are made with the credentials of the browser that asks. What one person was told is told again within a
second, so that a page costs the broker no more the more it shows.
"""

from __future__ import annotations

import json
import re
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, TypeVar
from urllib.parse import parse_qs, unquote, urlsplit

from milepost.admin import Admin, AdminError
from milepost.admin.pulsar_entries import Places, acked_entries, columns
from milepost.admin.transport import Credentials
from milepost.cli.console import pulsar_messages, pulsar_overview, pulsar_reset
from milepost.cli.console.pulsar_groups import progress_lines
from milepost.cli.console.pulsar_messages import Wanted
from milepost.clock import SystemClock
from milepost.errors import InvalidInput, MilepostError, NotFound
from milepost.positions.names import TopicName

if TYPE_CHECKING:
    from milepost.client.connection.endpoint import Endpoint

Json = dict[str, Any]
T = TypeVar("T")

KEPT_S: Final = 1.0
# Answers that one person's look keeps, and people that are remembered.
KEPT_MAX: Final = 64
PEOPLE_MAX: Final = 32
COLUMNS_MAX: Final = 2000
COUNT_MAX: Final = 200

_TOPIC: Final = r"/milepost/v1/topics/([^/]+)/([^/]+)/([^/]+)"
_GROUP: Final = rf"{_TOPIC}/subscriptions/([^/]+)"
_NAMESPACE: Final = r"/milepost/v1/namespaces/([^/]+)/([^/]+)"


@dataclass(frozen=True)
class _AsTheBrowser(Credentials):
    """The header that a browser sent, as it is."""

    sent: str = ""

    def header(self) -> dict[str, str]:
        return {"Authorization": self.sent} if self.sent else {}


class Person:
    """One who looks: calls with these credentials, and what they were answered a moment ago."""

    def __init__(self, admin: Admin) -> None:
        self.admin = admin
        self.surveys: dict[str, pulsar_overview.Survey] = {}
        self._kept: OrderedDict[tuple[str, str], tuple[float, Any]] = OrderedDict()
        self._lock = threading.Lock()

    def _recent(self, kind: str, topic: str, ask: Callable[[], T]) -> T:
        with self._lock:
            at_s, found = self._kept.get((kind, topic), (float("-inf"), None))
        now_s = time.monotonic()
        if now_s - at_s < KEPT_S:
            return found  # type: ignore[no-any-return]
        found = ask()
        with self._lock:
            self._kept[kind, topic] = now_s, found
            self._kept.move_to_end((kind, topic))
            while len(self._kept) > KEPT_MAX:
                self._kept.popitem(last=False)
        return found

    def stats(self, topic: str) -> Json:
        return self._recent("stats", topic, lambda: self.admin.get_stats(topic, earliest_time=True))

    def internal(self, topic: str) -> Json:
        return self._recent("internal", topic, lambda: self.admin.get_internal_stats(topic))

    def survey(self, namespaces: list[str]) -> pulsar_overview.Survey:
        key = ",".join(namespaces)
        found = self.surveys.get(key)
        if found is None or not found.is_fresh:
            found = pulsar_overview.survey(self.admin, namespaces)
            self.surveys = {key: found}
        return found

    def forget(self) -> None:
        """Something was changed."""
        with self._lock:
            self._kept.clear()
        self.surveys = {}


Query = dict[str, str]
Answer = tuple[int, str, bytes]


class Pulsar:
    def __init__(self, where: Endpoint, read_only: bool) -> None:
        # Without what the command line has: another user of this machine gets no rights by it.
        self._where = replace(where, tls_certificate=None, tls_key=None)
        self._read_only = read_only
        self._people: OrderedDict[str, Person] = OrderedDict()
        self._lock = threading.Lock()
        self._routes: list[tuple[re.Pattern[str], Callable[..., Any]]] = [
            (re.compile(pattern), answer)
            for pattern, answer in (
                ("/milepost/v1/session", self._session),
                ("/milepost/v1/overview", self._overview),
                (f"{_NAMESPACE}/overview", self._overview),
                ("/milepost/v1/topics", self._topics),
                (f"{_NAMESPACE}/topics", self._topics),
                (f"{_TOPIC}/rights", self._rights),
                (f"{_TOPIC}/policies", self._policies),
                (f"{_TOPIC}/progress", self._progress),
                (f"{_TOPIC}/messages", self._messages),
                (f"{_TOPIC}/messages/([0-9]+)/payload", self._payload),
                (f"{_GROUP}/strip", self._strip),
                (f"{_GROUP}/strip/messages", self._marks),
                (f"{_GROUP}/resets", self._resets),
                ("/admin/v2/persistent/([^/]+)/([^/]+)/([^/]+)/stats", self._stats),
            )
        ]
        self._reset_path = re.compile(f"{_GROUP}/reset")

    def answer(
        self, method: str, target: str, authorization: str, body: bytes | None
    ) -> Answer | None:
        """Status, kind and body; None for what is passed on."""
        parts = urlsplit(target)
        query = {name: values[-1] for name, values in parse_qs(parts.query).items()}
        try:
            if method == "POST":
                return _json(self._reset(parts.path, self._person(authorization), body or b""))
            for pattern, make in self._routes:
                found = pattern.fullmatch(parts.path)
                if found is not None:
                    names = [unquote(one) for one in found.groups()]
                    made = make(self._person(authorization), query, *names)
                    if isinstance(made, bytes):
                        return 200, "application/octet-stream", made
                    return _json(made)
        except AdminError as error:
            return _refusal(error.status or 502, error.reason)
        except MilepostError as error:
            return _refusal(error.http_status, str(error))
        if parts.path.startswith("/milepost/") or parts.path == "/openapi.json":
            return _refusal(404, f"Apache Pulsar tells nothing for {parts.path}")
        return None

    def close(self) -> None:
        with self._lock:
            for person in self._people.values():
                person.admin.close()
            self._people.clear()

    def _person(self, authorization: str) -> Person:
        with self._lock:
            person = self._people.get(authorization)
            if person is None:
                where = self._where
                admin = Admin(
                    where.http_url,
                    credentials=_AsTheBrowser(sent=authorization),
                    tls=where.tls(),
                    timeout_s=where.timeout_s,
                )
                person = self._people[authorization] = Person(admin)
            self._people.move_to_end(authorization)
            while len(self._people) > PEOPLE_MAX:
                self._people.popitem(last=False)[1].admin.close()
        return person

    # -- paths ---------------------------------------------------------------------------------------

    def _session(self, person: Person, query: Query) -> Json:
        return pulsar_overview.session(person.admin, self._read_only)

    def _survey(self, person: Person, names: tuple[str, ...]) -> pulsar_overview.Survey:
        if names:
            return person.survey(["/".join(names)])
        return person.survey(pulsar_overview.session(person.admin, True)["namespaces"])

    def _overview(self, person: Person, query: Query, *names: str) -> Json:
        skip, limit = _number(query, "skip", 0), _number(query, "limit", 50)
        found = self._survey(person, names)
        return pulsar_overview.overview(found, skip, limit, SystemClock().wall_ms())

    def _topics(self, person: Person, query: Query, *names: str) -> Json:
        found = self._survey(person, names)
        limit = max(_number(query, "limit", 50), 1)
        return pulsar_overview.topics(found, query.get("search", ""), query.get("after", ""), limit)

    def _rights(self, person: Person, query: Query, *names: str) -> Json:
        # It does not tell what a role may do: what it may not do is refused when it is asked for.
        return dict.fromkeys(("look_up", "consume", "produce", "administer"), True)

    def _policies(self, person: Person, query: Query, *names: str) -> list[Json]:
        return pulsar_overview.policies(person.admin, _topic(*names))

    def _progress(self, person: Person, query: Query, *names: str) -> Json:
        topic, now_ms = _topic(*names), SystemClock().wall_ms()
        lines = progress_lines(topic, person.stats(topic), person.internal(topic), now_ms)
        return {"at_ms": now_ms, "subscriptions": lines}

    def _stats(self, person: Person, query: Query, *names: str) -> Json:
        """The pages say how many messages there are from two fields that it has not."""
        topic = _topic(*names)
        places = Places.of(person.internal(topic))
        return {**person.stats(topic), "firstIndex": 0, "endIndex": places.end}

    def _strip(
        self, person: Person, query: Query, tenant: str, namespace: str, local: str, group: str
    ) -> Json:
        topic = _topic(tenant, namespace, local)
        internal = person.internal(topic)
        cursor = (internal.get("cursors") or {}).get(group)
        if cursor is None:
            raise NotFound(f"{topic} has no subscription {group}")
        places = Places.of(internal)
        first, end = _number(query, "first", 0), _number(query, "end", places.end)
        count = min(max(_number(query, "columns", 200), 1), COLUMNS_MAX)
        if end < first:
            raise InvalidInput(f"query end: {end} is below first, {first}")
        return {
            "topic": topic,
            "subscription": group,
            "at_ms": SystemClock().wall_ms(),
            "epoch": 0,
            "retained_first": 0,
            "retained_end": places.end,
            "first": first,
            "end": end,
            **columns(acked_entries(places, cursor), first, end, count, places.end),
        }

    def _marks(self, person: Person, query: Query, *names: str) -> Json:
        """It does not tell who holds what; ids can be told."""
        *topic_names, group = names
        topic = _topic(*topic_names)
        internal = person.internal(topic)
        places = Places.of(internal)
        cursor = (internal.get("cursors") or {}).get(group)
        if cursor is None:
            raise NotFound(f"{topic} has no subscription {group}")
        acked = acked_entries(places, cursor)
        first = _number(query, "first", 0)
        end = min(_number(query, "end", places.end), places.end, first + 200)
        marks = [
            {
                "index": one,
                "id": str(places.position_of(one)),
                "state": "acked" if one in acked else "ready",
                "holder": "",
                "deliveries": 0,
                "age_ms": 0,
                "key": None,
                "size": -1,
            }
            for one in range(first, end)
        ]
        return {"at_ms": SystemClock().wall_ms(), "messages": marks}

    def _resets(self, person: Person, query: Query, *names: str) -> list[Json]:
        return []  # it keeps no history of them

    def _messages(self, person: Person, query: Query, *names: str) -> Json:
        topic = _topic(*names)
        places = Places.of(person.internal(topic))
        index = _number(query, "index", 0) if "index" in query else None
        time_ms = _number(query, "time", 0) if "time" in query else None
        start = pulsar_messages.start_of(
            person.admin, topic, places, index, query.get("id", ""), time_ms
        )
        wanted = Wanted(*(query.get(name, "") for name in Wanted._fields))
        count = min(max(_number(query, "count", 50), 1), COUNT_MAX)
        cut = _number(query, "payload_max", 1024)
        return pulsar_messages.browse(person.admin, topic, places, start, count, wanted, cut)

    def _payload(
        self, person: Person, query: Query, tenant: str, namespace: str, local: str, number: str
    ) -> bytes:
        topic = _topic(tenant, namespace, local)
        places = Places.of(person.internal(topic))
        batch = _number(query, "batch", 0)
        return pulsar_messages.payload_of(person.admin, topic, places, int(number), batch)

    def _reset(self, path: str, person: Person, body: bytes) -> Json:
        found = self._reset_path.fullmatch(path)
        if found is None:
            raise NotFound(f"the pages change nothing at {path}")
        tenant, namespace, local, group = (unquote(one) for one in found.groups())
        try:
            asked = json.loads(body)
        except (ValueError, RecursionError):
            asked = None
        if not isinstance(asked, dict):
            raise InvalidInput("the body is not a JSON object")
        person.forget()
        return pulsar_reset.reset(person.admin, _topic(tenant, namespace, local), group, asked)


def _topic(tenant: str, namespace: str, local: str) -> str:
    return str(TopicName.parse(f"persistent://{tenant}/{namespace}/{local}"))


def _number(query: Query, name: str, otherwise: int) -> int:
    text = query.get(name)
    if text is None:
        return otherwise
    if not text.isdecimal() or len(text) > 19:
        raise InvalidInput(f"query {name}: {text[:40]!a} is not a whole number from 0 on")
    return int(text)


def _json(found: Any) -> Answer:
    return 200, "application/json", json.dumps(found).encode()


def _refusal(status: int, reason: str) -> Answer:
    return status, "application/json", json.dumps({"reason": reason}).encode()
