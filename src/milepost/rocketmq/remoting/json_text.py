"""JSON as mqadmin reads it: keys of objects may be objects and numbers, which are written as they are.

    >>> encode({"offsetTable": {Queue("orders", 0): 7}, "brokerAddrs": {0: "127.0.0.1:9876"}})
    b'{"offsetTable":{{"topic":"orders","brokerName":"milepost","queueId":0}:7},"brokerAddrs":{0:"127.0.0.1:9876"}}'

Its library writes maps that way and reads them back; a quoted object it would take for text. Written only:
what comes from clients is read as plain JSON.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, NamedTuple

from milepost.errors import InvalidInput
from milepost.rocketmq.routes import BROKER_NAME


class Queue(NamedTuple):
    """A queue, as a key or as a value."""

    topic: str
    number: int

    def named(self) -> dict[str, Any]:
        return {"topic": self.topic, "brokerName": BROKER_NAME, "queueId": self.number}


def encode(value: object) -> bytes:
    return _text(value).encode()


def _text(value: object) -> str:
    if isinstance(value, Queue):
        return _text(value.named())
    if isinstance(value, Mapping):
        return "{" + ",".join(f"{_key(key)}:{_text(one)}" for key, one in value.items()) + "}"
    if isinstance(value, list | tuple):
        if all(type(one) is str for one in value):  # a list of all topics may be long
            return json.dumps(value, separators=(",", ":"))
        return "[" + ",".join(map(_text, value)) + "]"
    return json.dumps(value, allow_nan=False)


def _key(key: object) -> str:
    return _text(key.named()) if isinstance(key, Queue) else json.dumps(key)


def decode(body: bytes) -> dict[str, Any]:
    """The object that a client has sent as a body; `InvalidInput` if it is none."""
    try:
        found = json.loads(body)
    except (ValueError, RecursionError):
        raise InvalidInput(f"a body of {len(body)} bytes that is not JSON") from None
    if not isinstance(found, dict):
        raise InvalidInput("a body that is no JSON object")
    return found
