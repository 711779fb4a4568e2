"""Topic and namespace names: the forms, the partitions, the rules."""

from __future__ import annotations

import pickle

import pytest

from milepost.errors import InvalidTopicName
from milepost.positions.names import (
    PARSED_NAMES_MAX,
    PARTITION_MAX,
    TOPIC_NAME_SIZE_BYTES_MAX,
    NamespaceName,
    TopicName,
    _parse_topic,
)

PREFIX = "persistent://public/default/"


def test_a_full_name_has_its_parts() -> None:
    name = TopicName.parse("non-persistent://acme/shop/orders-partition-3")
    assert str(name) == "non-persistent://acme/shop/orders-partition-3"
    assert (name.domain, name.is_persistent) == ("non-persistent", False)
    assert (name.tenant, str(name.namespace)) == ("acme", "acme/shop")
    assert (name.local_name, name.partition) == ("orders-partition-3", 3)
    assert str(name.base) == "non-persistent://acme/shop/orders"


@pytest.mark.parametrize(
    ("short", "full"),
    [
        ("orders", "persistent://public/default/orders"),
        ("acme/shop/orders", "persistent://acme/shop/orders"),
        ("orders-partition-0", "persistent://public/default/orders-partition-0"),
        ("a b", "persistent://public/default/a b"),
    ],
)
def test_short_names_are_persistent(short: str, full: str) -> None:
    name = TopicName.parse(short)
    assert str(name) == full
    assert name.is_persistent
    assert name == TopicName.parse(full)


@pytest.mark.parametrize(
    ("local_name", "partition"),
    [
        ("orders", -1),
        ("orders-partition-0", 0),
        ("orders-partition-99999", 99_999),
        (f"orders-partition-{PARTITION_MAX}", PARTITION_MAX),
        # Not as a machine prints a partition's number: ordinary topics, as upstream has it.
        (f"orders-partition-{PARTITION_MAX + 1}", -1),
        ("orders-partition-99999999999", -1),
        ("orders-partition-x", -1),
        ("orders-partition-", -1),
        ("orders-partition-01", -1),
        ("orders-partition-00", -1),
        ("orders-partition--1", -1),
        ("orders-partition-+1", -1),
        ("orders-partition-１", -1),
        ("orders-partition-1-DLQ", -1),
        ("orders-partition-1x", -1),
        ("ordersPartition-1", -1),
        ("-partition-x", -1),
        # The last suffix counts.
        ("orders-partition-1-partition-2", 2),
        ("orders-partition-1-partition-x", -1),
    ],
)
def test_only_a_canonical_number_makes_a_partition(local_name: str, partition: int) -> None:
    name = TopicName.parse(local_name)
    assert name.partition == partition
    assert str(name) == PREFIX + local_name


def test_a_topic_is_its_own_base() -> None:
    name = TopicName.parse("orders-partition-x")
    assert name.base is name


def test_the_base_of_a_partition_loses_one_suffix() -> None:
    name = TopicName.parse("orders-partition-1-partition-2")
    assert name.base == TopicName.parse("orders-partition-1")
    assert name.base.base == TopicName.parse("orders")


def test_partitions_have_names() -> None:
    name = TopicName.parse("orders")
    assert [str(name.partition_name(n)) for n in (0, 12)] == [
        PREFIX + "orders-partition-0",
        PREFIX + "orders-partition-12",
    ]
    assert name.partition_name(12).partition == 12
    assert name.partition_name(PARTITION_MAX).base == name


@pytest.mark.parametrize("partition", [-1, PARTITION_MAX + 1])
def test_there_are_partitions_that_cannot_be(partition: int) -> None:
    with pytest.raises(InvalidTopicName, match=f"there is no partition {partition}"):
        TopicName.parse("orders").partition_name(partition)


def test_a_partition_has_no_partitions() -> None:
    with pytest.raises(InvalidTopicName, match="a partition has no partitions"):
        TopicName.parse("orders-partition-0").partition_name(1)


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("", "the topic is empty"),
        ("persistent://", "expected tenant/namespace/topic"),
        ("persistent://a", "expected tenant/namespace/topic"),
        ("persistent://a/b", "expected tenant/namespace/topic"),
        ("a/b", "expected tenant/namespace/topic"),
        ("persistent://a/b/", "the topic is empty"),
        ("persistent://a//c", "the namespace is empty"),
        ("persistent:///b/c", "the tenant is empty"),
        ("/orders", "expected tenant/namespace/topic"),
        ("//orders", "the tenant is empty"),
        ("persistent://prop/cluster/ns/topic", "names of Pulsar 1"),
        ("prop/cluster/ns/topic", "names of Pulsar 1"),
        ("persistent://a/b/c/", "names of Pulsar 1"),
        ("persistent://a/b/c://d", "names of Pulsar 1"),
        ("memory://a/b/c", "the scheme is neither persistent nor non-persistent"),
        ("Persistent://a/b/c", "the scheme is neither"),
        ("://a/b/c", "the scheme is neither"),
        (" orders", "blanks around the topic"),
        ("orders ", "blanks around the topic"),
        ("orders\u00a0", "blanks around the topic"),
        ("\u3000orders", "blanks around the topic"),
        (" persistent://a/b/c", "the scheme is neither"),
        ("persistent:/a/b/c", "expected persistent://tenant/namespace/topic"),
        ("non-persistent:/a/b", "expected persistent://tenant/namespace/topic"),
        ("persistent:// a/b/c", "blanks around the tenant"),
        ("persistent://a/b /c", "blanks around the namespace"),
        ("persistent://a/b/ ", "blanks around the topic"),
        ("..", r"the topic is \.\."),
        ("persistent://a/b/.", r"the topic is \."),
        ("persistent://../b/c", r"the tenant is \.\."),
        ("persistent://a/../c", r"the namespace is \.\."),
        ("a\x00b", r"character U\+0000 is not allowed"),
        ("a\nb", r"character U\+000A is not allowed"),
        ("a\x7fb", r"character U\+007F is not allowed"),
        ("a\x85b", r"character U\+0085 is not allowed"),
        ("a\u202eb", r"character U\+202E is not allowed"),
        ("a\u2028b", r"character U\+2028 is not allowed"),
        ("a\ud800b", r"character U\+D800 is not allowed"),
        ("a\udfff", r"character U\+DFFF is not allowed"),
        ("persistent://te nant/b/c", "the tenant has characters other than"),
        ("persistent://a/b?/c", "the namespace has characters other than"),
        ("persistent://ä/b/c", "the tenant has characters other than"),
        ("-partition-3", "a partition of a topic without a name"),
    ],
)
def test_text_that_is_no_name_is_refused_by_the_rule_it_breaks(text: str, rule: str) -> None:
    with pytest.raises(InvalidTopicName, match=rule) as caught:
        TopicName.parse(text)
    # An error is logged and sent: it must be text that can be.
    assert str(caught.value).isascii()


@pytest.mark.parametrize(
    "text", ["a..b", "...", "a%20b", "a%b", "a\\b", "Ωμέγα", "😀", "a:b", "a?b#c"]
)
def test_a_topic_may_have_any_other_text(text: str) -> None:
    assert TopicName.parse(text).local_name == text


@pytest.mark.parametrize("tenant", ["a", "A-1", "a=b", "a:b", "a.b", "_"])
def test_tenants_and_namespaces_have_pulsars_characters(tenant: str) -> None:
    assert TopicName.parse(f"{tenant}/{tenant}/x").namespace == NamespaceName.parse(
        f"{tenant}/{tenant}"
    )


def test_a_full_name_has_at_most_4096_bytes() -> None:
    room = TOPIC_NAME_SIZE_BYTES_MAX - len(PREFIX)
    assert len(str(TopicName.parse("x" * room))) == TOPIC_NAME_SIZE_BYTES_MAX
    for text in ("x" * (room + 1), "ü" * (room // 2 + 1), "x" * 10_000_000):
        with pytest.raises(InvalidTopicName, match="longer than 4096 bytes") as caught:
            TopicName.parse(text)
        assert len(str(caught.value)) < 300


def test_a_partition_of_a_long_name_is_measured_too() -> None:
    longest = TopicName.parse("x" * (TOPIC_NAME_SIZE_BYTES_MAX - len(PREFIX)))
    with pytest.raises(InvalidTopicName, match="longer than"):
        longest.partition_name(0)


def test_names_are_compared_as_text() -> None:
    names = [TopicName.parse(text) for text in ("b", "a", "non-persistent://z/z/z", "A")]
    assert [str(name) for name in sorted(names)] == sorted(str(name) for name in names)
    assert TopicName.parse("a") != TopicName.parse("A")
    assert TopicName.parse("a") != PREFIX + "a"
    assert hash(TopicName.parse("a")) == hash(TopicName.parse(PREFIX + "a"))


def test_a_name_does_not_change_and_pickles() -> None:
    name = TopicName.parse("orders-partition-3")
    with pytest.raises(AttributeError):
        name.partition = 4  # type: ignore[misc]
    twin = pickle.loads(pickle.dumps(name))
    assert (twin, twin.partition, twin.namespace) == (name, 3, name.namespace)


def test_parsed_names_are_kept_up_to_a_limit() -> None:
    assert TopicName.parse("orders") is TopicName.parse("orders")
    for number in range(PARSED_NAMES_MAX + 10):
        TopicName.parse(f"kept-{number}")
    assert _parse_topic.cache_info().currsize == PARSED_NAMES_MAX


def test_a_namespace_has_two_parts() -> None:
    namespace = NamespaceName.parse("acme/shop")
    assert (namespace.tenant, namespace.local_name, str(namespace)) == ("acme", "shop", "acme/shop")
    assert namespace == TopicName.parse("acme/shop/orders").namespace


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("", "expected tenant/namespace"),
        ("acme", "expected tenant/namespace"),
        ("prop/cluster/ns", "names of Pulsar 1"),
        ("a/b/c/d", "expected tenant/namespace"),
        ("acme/", "the namespace is empty"),
        ("/shop", "the tenant is empty"),
        ("acme/..", r"the namespace is \.\."),
        ("acme/shop ", "blanks around the namespace"),
        ("acme/sh op", "the namespace has characters other than"),
        ("acme/\x00", r"character U\+0000"),
        ("a/" + "b" * 4096, "longer than"),
    ],
)
def test_text_that_is_no_namespace_is_refused(text: str, rule: str) -> None:
    with pytest.raises(InvalidTopicName, match=rule):
        NamespaceName.parse(text)
