"""What the tests ask of the admin interface: policies set and removed, and what holds."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from compat.broker_process import BrokerProcess

WAIT_S = 60


def path_of(topic: str) -> str:
    """`persistent://a/b/c` as REST has it."""
    return f"/admin/v2/{topic.replace('://', '/')}"


def make_topic(broker: BrokerProcess, topic: str) -> None:
    status, answer = broker.rest("PUT", path_of(topic))
    assert status == 204, (status, answer)


def set_policy(broker: BrokerProcess, topic: str, policy: str, value: Any) -> None:
    """By its path; None removes it."""
    method = "POST" if value is not None else "DELETE"
    status, answer = broker.rest(method, f"{path_of(topic)}/{policy}", value)
    assert status == 204, (policy, status, answer)


def stats(broker: BrokerProcess, topic: str) -> Any:
    status, answer = broker.rest("GET", f"{path_of(topic)}/stats")
    assert status == 200, answer
    return answer


def until(is_so: Callable[[], Any], what: str) -> Any:
    """Ask until it is so."""
    deadline = time.monotonic() + WAIT_S
    while not (found := is_so()):
        assert time.monotonic() < deadline, f"not within {WAIT_S} s: {what}"
        time.sleep(0.02)  # sleep: between two questions
    return found
