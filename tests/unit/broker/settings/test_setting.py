"""One setting: what it reads, what it refuses, how it says so."""

from __future__ import annotations

from pathlib import Path

import pytest

from milepost.broker.settings.setting import GIB, KIB, MIB, Alias, Kind, Setting, Value, show_size

SWITCH = Setting("dedup", Kind.SWITCH, False, "")
COUNT = Setting("port", Kind.COUNT, 6650, "", low=0, high=65535)
SIZE = Setting("size", Kind.SIZE, MIB, "", low=KIB, high=GIB)
DURATION = Setting("wait_s", Kind.DURATION, 10.0, "", low=0.01, high=3600)
CHOICE = Setting("type", Kind.CHOICE, "a", "", choices=("a", "b"))
TEXT = Setting("host", Kind.TEXT, "", "")
PATH = Setting("data", Kind.PATH, Path("data"), "")


@pytest.mark.parametrize(
    ("setting", "text", "value"),
    [
        (SWITCH, "true", True),
        (SWITCH, " False ", False),
        (COUNT, "0", 0),
        (COUNT, "65535", 65535),
        (SIZE, "2048", 2048),
        (SIZE, "64MiB", 64 * MIB),
        (SIZE, "64 MiB", 64 * MIB),
        (SIZE, "1 GiB", GIB),
        (DURATION, "30", 30.0),
        (DURATION, "0.01", 0.01),
        (CHOICE, "b", "b"),
        (TEXT, "", ""),
        (TEXT, "mq.example.com", "mq.example.com"),
        (PATH, "a/b", Path("a/b")),
    ],
)
def test_text_is_read(setting: Setting, text: str, value: Value) -> None:
    assert setting.parse(text) == value


@pytest.mark.parametrize(
    ("setting", "text"),
    [
        (SWITCH, "yes"),
        (SWITCH, "1"),
        (SWITCH, ""),
        (COUNT, "-1"),
        (COUNT, "65536"),
        (COUNT, "1e3"),
        (COUNT, "1.0"),
        (COUNT, "0x10"),
        (COUNT, "1_000"),
        (COUNT, "６６５０"),  # digits, but not as a machine prints them
        (COUNT, "9" * 5000),
        (COUNT, ""),
        (SIZE, "1023"),
        (SIZE, "2 GiB"),
        (SIZE, "64 MB"),
        (SIZE, "-1 MiB"),
        (SIZE, "1.5 MiB"),
        (DURATION, "0"),
        (DURATION, "nan"),
        (DURATION, "inf"),
        (DURATION, "1e3"),
        (CHOICE, "c"),
        (CHOICE, "A"),
        (TEXT, "two\nlines"),
        (PATH, ""),
        (PATH, "nul\0byte"),
    ],
)
def test_other_text_is_not(setting: Setting, text: str) -> None:
    assert setting.parse(text) is None


@pytest.mark.parametrize(
    ("setting", "value", "taken"),
    [
        (COUNT, 7, 7),
        (COUNT, True, None),
        (COUNT, 7.0, None),
        (COUNT, "7", None),
        (SIZE, 2048, 2048),
        (SIZE, "2 KiB", 2048),
        (SIZE, "2 kb", None),
        (DURATION, 3, 3.0),
        (DURATION, 0.5, 0.5),
        (DURATION, False, None),
        (SWITCH, 1, None),
        (SWITCH, True, True),
        (TEXT, 5, None),
        (PATH, "x", Path("x")),
        (PATH, ["x"], None),
        (CHOICE, {"a": 1}, None),
    ],
)
def test_typed_values_keep_their_type(setting: Setting, value: object, taken: Value | None) -> None:
    found = setting.take(value)
    assert (found, type(found)) == (taken, type(taken))


def test_a_key_of_pulsar_may_have_another_unit() -> None:
    assert SIZE.parse("64", Alias("cacheSizeMB", MIB)) == 64 * MIB
    assert SIZE.parse("4096", Alias("cacheSizeMB", MIB)) is None
    assert DURATION.parse("1500", Alias("timeoutMs", 0.001)) == 1.5
    assert COUNT.parse("3", Alias("minutes", 60)) == 180


def test_class_names_switch_on() -> None:
    alias = Alias("interceptors", names_classes=True)
    assert SWITCH.parse("org.example.A,org.example.B", alias) is True


def test_what_is_allowed_is_said_in_words() -> None:
    assert COUNT.allowed == "a whole number from 0 to 65535"
    assert DURATION.allowed == "a number from 0.01 to 3600"
    assert SIZE.allowed.endswith("from 1 KiB to 1 GiB")
    assert CHOICE.allowed == "one of a, b"
    assert SWITCH.allowed == "true or false"


@pytest.mark.parametrize(
    ("size", "text"), [(0, "0"), (1, "1"), (1536, "1536"), (KIB, "1 KiB"), (3 * GIB, "3 GiB")]
)
def test_sizes_are_shown_in_the_largest_whole_unit(size: int, text: str) -> None:
    assert show_size(size) == text
