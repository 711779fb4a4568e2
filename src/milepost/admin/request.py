"""One call without a socket: its request, and how its answer is read.

A *script* is one call as a generator: it yields requests, is sent their answers, and returns the
result. Most have one request; some go on by what an answer said. The caller that has a socket drives it
(`face.py`), so that one description serves a synchronous and an asynchronous client.

    def get_tenants() -> Script[list[str]]:
        return (yield get("/admin/v2/tenants")).strings()
"""

from __future__ import annotations

import json
from collections.abc import Generator, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias, TypeVar
from urllib.parse import quote, urlencode

from milepost.admin.errors import BadAnswer
from milepost.errors import InvalidInput
from milepost.positions.ids import MessageId
from milepost.positions.names import NamespaceName, TopicName

T = TypeVar("T")

Json: TypeAlias = dict[str, Any]

JSON_TYPE = "application/json"


@dataclass(frozen=True, slots=True)
class Request:
    method: str

    # Below the service's URL, encoded, without the query.
    path: str

    # Values as they stand in the URL; what is None is left out.
    query: Mapping[str, object] = field(default_factory=dict)

    # The body, encoded; None for none.
    body: bytes | None = None
    content_type: str = JSON_TYPE

    @property
    def target(self) -> str:
        """The path with its query."""
        given = {name: _text(value) for name, value in self.query.items() if value is not None}
        return f"{self.path}?{urlencode(given)}" if given else self.path

    def __str__(self) -> str:
        return f"{self.method} {self.path}"


@dataclass(frozen=True, slots=True)
class Answer:
    """A successful answer. Reading it as something it is not raises `BadAnswer`."""

    request: Request
    url: str
    status: int

    # Invariant: names are in lower case.
    headers: Mapping[str, str]
    body: bytes

    def json(self) -> Any:
        try:
            return json.loads(self.body)
        except (ValueError, RecursionError):
            raise self.bad("not JSON") from None

    def object(self) -> Json:
        document = self.json()
        if not isinstance(document, dict):
            raise self.bad("not a JSON object")
        return document

    def objects(self) -> list[Json]:
        document = self.json()
        if not isinstance(document, list) or not all(isinstance(one, dict) for one in document):
            raise self.bad("not a list of JSON objects")
        return document

    def strings(self) -> list[str]:
        document = self.json()
        if not isinstance(document, list) or not all(isinstance(one, str) for one in document):
            raise self.bad("not a list of names")
        return document

    def number(self) -> int:
        return self.number_in({"": self.json()}, "")

    def number_in(self, document: Json, name: str) -> int:
        value = document.get(name)
        if not isinstance(value, int) or isinstance(value, bool):
            raise self.bad(f"without a whole number {name}".rstrip())
        return value

    def text(self) -> str:
        """Plain text; a JSON string gives what is in it."""
        text = self.body.decode("utf-8", "replace").strip()
        return str(self.json()) if text.startswith('"') else text

    def message_id(self) -> MessageId:
        return self.message_id_in(self.object())

    def message_id_in(self, document: Any) -> MessageId:
        try:
            return MessageId(
                int(document["ledgerId"]),
                int(document["entryId"]),
                int(document.get("partitionIndex", -1)),
                int(document.get("batchIndex", -1)),
                int(document.get("batchSize", 0)),
            )
        except (KeyError, TypeError, ValueError, AttributeError):
            raise self.bad("not a message id") from None

    def bad(self, why: str) -> BadAnswer:
        shown = ascii(self.body[:60].decode("utf-8", "replace"))
        return BadAnswer(str(self.request), self.url, self.status, f"the answer is {why}: {shown}")


Script: TypeAlias = Generator[Request, Answer, T]


def get(path: str, **query: object) -> Request:
    return Request("GET", path, query)


def put(path: str, body: object = None, **query: object) -> Request:
    return Request("PUT", path, query, encode(body))


def post(path: str, body: object = None, **query: object) -> Request:
    return Request("POST", path, query, encode(body))


def delete(path: str, **query: object) -> Request:
    return Request("DELETE", path, query)


def encode(body: object) -> bytes | None:
    return None if body is None else json.dumps(body).encode()


def topic_path(topic: str, *rest: object) -> str:
    """`/admin/v2/persistent/tenant/namespace/topic/…` of a topic in any form."""
    name = TopicName.parse(topic)
    return path(
        "admin/v2", name.domain, name.tenant, name.namespace.local_name, name.local_name, *rest
    )


def own_path(topic: str, *rest: object) -> str:
    """`/milepost/v1/topics/tenant/namespace/topic/…`: what Pulsar has no path for."""
    name = TopicName.parse(topic)
    return path(
        "milepost/v1/topics", name.tenant, name.namespace.local_name, name.local_name, *rest
    )


def subscription_path(topic: str, subscription: str, *rest: object) -> str:
    """`…/topic/subscription/name/…`; brokers decode this name twice, so it is encoded twice."""
    return topic_path(topic, "subscription", quote(subscription, safe=""), *rest)


def schema_path(topic: str, *rest: object) -> str:
    """`/admin/v2/schemas/tenant/namespace/topic/…`."""
    name = TopicName.parse(topic)
    return path("admin/v2/schemas", name.tenant, name.namespace.local_name, name.local_name, *rest)


def namespace_path(namespace: str, *rest: object) -> str:
    name = NamespaceName.parse(namespace)
    return path("admin/v2/namespaces", name.tenant, name.local_name, *rest)


def tenant_path(root: str, tenant: str) -> str:
    """The path of a tenant; a namespace in its place would lead to another call."""
    if "/" in tenant:
        raise InvalidInput(f"{tenant!a} is no tenant: a tenant's name has no slash")
    return path(root, tenant)


def path(root: str, *parts: object) -> str:
    """A path below a root; `InvalidInput` for a part that would lead out of it.

    Servers take `..` for the folder above: revoking the rights of such a role would delete a topic.
    """
    for part in parts:
        text = str(part)
        if not text.strip("/") or any(one in (".", "..") for one in text.split("/")):
            raise InvalidInput(f"{text!a} cannot be part of a path")
    return "/".join(["", root, *(quote(str(part), safe="") for part in parts)])


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
