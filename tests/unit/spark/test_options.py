"""Options: every one has a type, and a stranger is refused by name."""

from __future__ import annotations

import json
import pickle

import pytest

from milepost.errors import InvalidOption
from milepost.positions.names import TopicName
from milepost.spark.options import (
    EARLIEST,
    LATEST,
    READ,
    WRITE,
    Bound,
    Bounds,
    ReadOptions,
    read_options,
    write_options,
)

EVENTS = "persistent://public/default/events"


def read(**more: str) -> ReadOptions:
    return read_options({"topic": "events", **more})


def test_defaults_are_those_of_somebody_who_wants_everything_once() -> None:
    options = read()
    assert options.topics == (EVENTS,)
    assert (options.starting, options.ending) == (Bounds(EARLIEST), Bounds(LATEST))
    assert options.fail_on_data_loss
    assert options.connection.url == "pulsar://localhost:6650"
    assert (options.messages_max, options.columns, options.decode) == (None, None, "raw")


def test_the_case_of_a_name_does_not_count() -> None:
    # Spark hands options over in lower case, depending on how they were given.
    options = read_options({"TOPIC": "events", "maxmessagespertrigger": "7"})
    assert (options.topics, options.messages_max) == ((EVENTS,), 7)


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("topicc", "did you mean topic"),
        ("maxOffsetsPerTrigger", "did you mean max"),
        ("kafka.bootstrap.servers", "there are serviceUrl"),
    ],
)
def test_an_unknown_option_is_refused(name: str, hint: str) -> None:
    with pytest.raises(InvalidOption, match=f"no option {name}; {hint}"):
        read(**{name: "x"})


@pytest.mark.parametrize(
    ("name", "text", "field", "value"),
    [
        ("maxBytesPerTrigger", "1000", "bytes_max", 1000),
        ("minMessagesPerTrigger", "0", "messages_min", 0),
        ("maxTriggerDelay", "500ms", "delay_max_s", 0.5),
        ("maxTriggerDelay", "15m", "delay_max_s", 900),
        ("minPartitions", "4", "partitions_min", 4),
        ("maxMessagesPerPartition", "9", "slice_max", 9),
        ("columns", "index, value,index", "columns", ("index", "value")),
        ("decode", "JSON", "decode", "json"),
        ("mode", "PERMISSIVE", "permissive", True),
        ("mode", "failfast", "permissive", False),
        ("failOnDataLoss", "False", "fail_on_data_loss", False),
        ("subscription", "etl", "subscription", "etl"),
        ("pushFilters", "true", "push_filters", True),
    ],
)
def test_a_value_gets_its_type(name: str, text: str, field: str, value: object) -> None:
    assert getattr(read(**{name: text}), field) == value


@pytest.mark.parametrize(
    ("name", "text", "allowed"),
    [
        ("maxMessagesPerTrigger", "0", "whole number from 1"),
        ("maxMessagesPerTrigger", "-1", "whole number from 1"),
        ("minPartitions", "two", "whole number from 1"),
        ("maxTriggerDelay", "15", "a number and a unit"),
        ("failOnDataLoss", "yes", "true or false"),
        ("decode", "xml", "raw | schema"),
        ("columns", " , ", "names of columns"),
        ("serviceUrl", "localhost:6650", "pulsar://host:port"),
        ("adminUrl", "pulsar://h:1", "http://host:port"),
        ("startingIndex", "soon", "earliest, latest, an index"),
        ("startingIndex", "-2", "earliest, latest, an index"),
        ("startingIndex", "timestamp:yesterday", "ISO 8601"),
        ("startingIndex", "messageId:x", "x"),
        ("startingIndex", '{"events": -2}', "earliest, latest"),
        ("startingIndex", '{"events": true}', "earliest, latest"),
        ("startingIndex", "{", "JSON"),
        ("subscription", " ", "some text"),
    ],
)
def test_a_bad_value_is_named_with_what_is_allowed(name: str, text: str, allowed: str) -> None:
    with pytest.raises(InvalidOption) as caught:
        read(**{name: text})
    assert name in str(caught.value)
    assert allowed in str(caught.value)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("earliest", EARLIEST),
        ("LATEST", LATEST),
        ("1200", Bound("index", 1200)),
        ("timestamp:1700000000000", Bound("timestamp", 1_700_000_000_000)),
        ("timestamp:2023-11-14T22:13:20Z", Bound("timestamp", 1_700_000_000_000)),
        ("timestamp:2023-11-14 22:13:20", Bound("timestamp", 1_700_000_000_000)),
        ("messageId:3:12:-1:4", Bound("message_id", "3:12:-1:4")),
        ("subscription:etl", Bound("subscription", "etl")),
    ],
)
def test_a_bound_has_many_forms(text: str, expected: Bound) -> None:
    assert read(startingIndex=text).starting == Bounds(expected)
    assert read(endingIndex=text).ending == Bounds(expected)


def test_bounds_may_differ_by_partition() -> None:
    text = json.dumps({"events-partition-1": 7, f"{EVENTS}-partition-0": "latest"})
    bounds = read(startingIndex=text).starting
    assert bounds.of(f"{EVENTS}-partition-0") == LATEST
    assert bounds.of(f"{EVENTS}-partition-1") == Bound("index", 7)
    assert bounds.of(f"{EVENTS}-partition-2") == EARLIEST
    assert read(endingIndex=text).ending.default == LATEST


def test_exactly_one_option_says_what_to_read() -> None:
    with pytest.raises(InvalidOption, match="given: none"):
        read_options({})
    with pytest.raises(InvalidOption, match="given: topic, topicsPattern"):
        read(topicsPattern="e.*")
    assert read_options({"topics": "b, a,b"}).topics == (
        "persistent://public/default/b",
        "persistent://public/default/a",
    )
    with pytest.raises(InvalidOption, match="no indexes"):
        read_options({"topic": "non-persistent://public/default/x"})
    with pytest.raises(InvalidOption, match="option topic: topic name"):
        read_options({"topic": "a/b"})
    with pytest.raises(InvalidOption, match="names of topics"):
        read_options({"topics": ","})


@pytest.mark.parametrize(
    ("pattern", "topic", "matches"),
    [
        ("ev.*", "events", True),
        ("ev.*", "events-partition-3", True),
        ("ev", "events", False),
        ("persistent://acme/shop/o.*", "acme/shop/orders", True),
        ("acme/shop/o.*", "acme/other/orders", False),
    ],
)
def test_a_pattern_is_over_full_names(pattern: str, topic: str, matches: bool) -> None:
    found = read_options({"topicsPattern": pattern}).topics_pattern
    assert found is not None
    assert found.matches(TopicName.parse(topic)) is matches


@pytest.mark.parametrize("pattern", ["a/b", "*/ns/x", "("])
def test_a_pattern_that_is_none_is_refused(pattern: str) -> None:
    with pytest.raises(InvalidOption, match="topicsPattern"):
        read_options({"topicsPattern": pattern})


def test_a_write_has_options_of_its_own() -> None:
    options = write_options({"topic": "out", "delivery": "exactlyonce", "compression": "ZSTD"})
    assert (options.topic, options.delivery, options.compression) == (
        "persistent://public/default/out",
        "exactlyOnce",
        "zstd",
    )
    assert write_options({"topic": "out"}).delivery == "atLeastOnce"
    with pytest.raises(InvalidOption, match="topic says where to write"):
        write_options({})
    with pytest.raises(InvalidOption, match="no option startingIndex"):
        write_options({"topic": "out", "startingIndex": "0"})


def test_options_travel_to_executors() -> None:
    options = read(topic="events", startingIndex='{"events": 3}')
    assert pickle.loads(pickle.dumps(options)) == options


def test_every_option_has_its_row_on_the_page() -> None:
    from pathlib import Path

    page = (Path(__file__).parents[3] / "docs" / "spark.md").read_text("utf-8")
    assert [name for name in (*READ, *WRITE) if f"`{name}`" not in page] == []
