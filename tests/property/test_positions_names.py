"""Names under Hypothesis: there and back, and any text at all."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from milepost.errors import InvalidTopicName
from milepost.positions.names import NamespaceName, TopicName
from milepost.testing.strategies import namespace_names, topic_names


def twin_of_partition(local_name: str) -> int:
    """The dumb twin: does any partition number, printed, end the name?"""
    suffix = local_name.rpartition("-partition-")[2]
    for number in range(10_001):
        if local_name.endswith(f"-partition-{number}") and suffix == str(number):
            return number
    return -1


@given(topic_names())
def test_a_name_parses_to_itself(name: TopicName) -> None:
    again = TopicName.parse(str(name))
    assert again == name
    assert str(again) == f"{again.domain}://{again.namespace}/{again.local_name}"
    assert str(again.namespace).split("/")[0] == again.tenant


@given(topic_names(partitions=False), st.integers(0, 2**31 - 1))
def test_a_partition_leads_back_to_its_topic(name: TopicName, partition: int) -> None:
    one = name.partition_name(partition)
    assert (one.partition, one.base, one.namespace) == (partition, name, name.namespace)


@given(st.text("01x9-", max_size=5))
def test_only_printed_numbers_make_a_partition(tail: str) -> None:
    local_name = f"t-partition-{tail}"
    expected = twin_of_partition(local_name)
    got = TopicName.parse(local_name).partition
    assert got == expected or (expected == -1 and got > 10_000 and str(got) == tail)


@given(namespace_names())
def test_a_namespace_parses_to_itself(namespace: NamespaceName) -> None:
    assert NamespaceName.parse(str(namespace)) == namespace
    assert f"{namespace.tenant}/{namespace.local_name}" == str(namespace)


@given(
    st.text(max_size=40)
    | st.text("/:ab .-%2F\x00", max_size=40)
    | st.text(st.characters(), max_size=5).map("persistent://a/b/{}".format)
    | st.text(
        st.characters(categories=["Cs", "Cc", "Cf", "Zs", "Zl", "Zp"]), min_size=1, max_size=5
    )
)
def test_any_text_is_a_safe_name_or_refused(text: str) -> None:
    try:
        name = TopicName.parse(text)
    except InvalidTopicName:
        return
    assert TopicName.parse(str(name)) == name
    assert str(name).encode().decode() == str(name)
    assert len(str(name).splitlines()) == 1
    assert all(
        part == part.strip() and part not in ("", ".", "..") for part in text.split("/")[-3:]
    )
