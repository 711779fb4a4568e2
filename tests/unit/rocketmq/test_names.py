"""Names of topics and groups."""

from __future__ import annotations

import pytest

from milepost.positions.names import TopicName
from milepost.rocketmq import names
from milepost.rocketmq import rocketmq_pb2 as pb
from milepost.rocketmq.codes import Code, Refused

HOME = "acme/shop"


def topic(name: str, namespace: str = "") -> str:
    return str(names.topic_of(pb.Resource(name=name, resource_namespace=namespace), HOME))


def test_a_topic_is_one_of_a_namespace() -> None:
    assert topic("orders") == "persistent://acme/shop/orders"
    assert topic("orders", "till") == "persistent://acme/till/orders"
    assert topic("orders", "other/till") == "persistent://other/till/orders"
    assert topic("%DLQ%a|b-c_D9") == "persistent://acme/shop/%DLQ%a|b-c_D9"
    assert topic("x" * 127).endswith("x" * 127)


@pytest.mark.parametrize("name", ["", "a b", "a/b", "a.b", "ä", "a\n", "x" * 128, "TBW102"])
def test_a_text_that_is_no_topic(name: str) -> None:
    with pytest.raises(Refused) as caught:
        topic(name)
    assert caught.value.code is Code.ILLEGAL_TOPIC


@pytest.mark.parametrize("namespace", ["a/b/c", "a b", "/", "a/", "pulsar/system", "x" * 513])
def test_a_text_that_is_no_namespace(namespace: str) -> None:
    with pytest.raises(Refused) as caught:
        topic("orders", namespace)
    assert caught.value.code is Code.ILLEGAL_TOPIC


@pytest.mark.parametrize("name", ["", "a b", "a/b", "x" * 256, "x-partition-0"])
def test_a_text_that_is_no_group(name: str) -> None:
    with pytest.raises(Refused) as caught:
        names.group_of(pb.Resource(name=name))
    assert caught.value.code is Code.ILLEGAL_CONSUMER_GROUP


def test_dead_letters_lie_beside_their_topic() -> None:
    there = names.dead_letter_topic(TopicName.parse("acme/shop/orders"), "billing")
    assert str(there) == "persistent://acme/shop/%DLQ%billing"
    assert str(names.topic_of(pb.Resource(name=there.local_name), HOME)) == str(there)
