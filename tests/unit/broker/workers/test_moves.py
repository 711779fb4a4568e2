"""Brokers that an operator names to move shards to."""

from __future__ import annotations

import pytest

from milepost.broker.workers.moves import broker_named
from milepost.errors import PreconditionFailed
from milepost.storage.cluster.notice import Notice

ONE = Notice("one-1", "h", "m", 1, 1, 9, "", "", "http://h:8080", False, {})
TWO = ONE._replace(broker="two-2", http_url="https://i:8443")


def test_a_broker_is_named_by_its_address_or_its_name() -> None:
    for name in ("h:8080", "one-1"):
        assert broker_named([ONE, TWO], name) is ONE
    assert broker_named([ONE, TWO], "i:8443") is TWO


@pytest.mark.parametrize("name", ["", "h", "i:8080", "http://h:8080", "one"])
def test_a_broker_that_is_not_there_is_told_with_those_that_are(name: str) -> None:
    with pytest.raises(PreconditionFailed) as told:
        broker_named([TWO, ONE], name)
    assert str(told.value) == f"there is no living broker {name!r}; there are: h:8080, i:8443"


def test_a_broker_that_is_about_to_end_is_given_nothing() -> None:
    with pytest.raises(PreconditionFailed, match="broker 'h:8080' is about to end"):
        broker_named([ONE._replace(is_leaving=True), TWO], "h:8080")
