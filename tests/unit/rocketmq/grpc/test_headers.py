"""Header blocks mean what the table makes of them, also where they are read from what was kept."""

from __future__ import annotations

import hpack
import pytest

from milepost.rocketmq.grpc.headers import HeaderReader, Malformed, written

REQUEST = [(":method", "POST"), (":scheme", "http"), (":path", "/")]  # never in the table


def test_the_same_bytes_are_read_once_while_the_table_is_the_same() -> None:
    reader, encoder = HeaderReader(), hpack.Encoder()
    first = reader.read(encoder.encode([*REQUEST, ("x", "1")]))
    block = encoder.encode([*REQUEST, ("x", "1")])
    second = reader.read(block)
    assert reader.read(block) is second
    assert first == second == {**dict(REQUEST), "x": "1"}


def test_the_same_bytes_mean_something_else_in_another_table() -> None:
    reader, encoder = HeaderReader(), hpack.Encoder()
    reader.read(encoder.encode([*REQUEST, ("x", "1")]))
    block = encoder.encode([*REQUEST, ("x", "1")])
    assert reader.read(block)["x"] == "1"
    # The newest header has the number that the other one had.
    reader.read(encoder.encode([*REQUEST, ("x", "2")]))
    again = encoder.encode([*REQUEST, ("x", "2")])
    assert again == block
    assert reader.read(again)["x"] == "2"


def test_a_block_that_is_passed_over_changes_the_table_too() -> None:
    reader, encoder = HeaderReader(), hpack.Encoder()
    reader.read(encoder.encode([*REQUEST, ("x", "1")]))
    block = encoder.encode([*REQUEST, ("x", "1")])
    assert reader.read(block)["x"] == "1"
    reader.pass_over(encoder.encode([("x", "2")]))
    assert reader.read(encoder.encode([*REQUEST, ("x", "2")]))["x"] == "2"


def test_a_block_that_sets_the_size_of_the_table_is_always_read() -> None:
    reader, encoder = HeaderReader(), hpack.Encoder()
    values = []
    for size in (100, 4096, 100, 4096, 0, 4096):
        encoder.header_table_size = size
        for value in ("1", "1", "2", "2"):
            found = reader.read(encoder.encode([*REQUEST, ("x", value), ("y", "z" * 40)]))
            values.append((found["x"], found["y"]))
    assert values == [(value, "z" * 40) for _ in range(6) for value in ("1", "1", "2", "2")]


def test_many_kinds_of_blocks_are_not_all_kept() -> None:
    reader = HeaderReader()
    for number in range(1000):
        assert reader.read(written(*REQUEST, ("x", str(number))))["x"] == str(number)
    assert len(reader._kept) <= 64


def test_long_blocks_are_not_kept() -> None:
    """A client could have this side keep a megabyte of them with each connection."""
    reader = HeaderReader()
    for number in range(64):
        assert reader.read(written(*REQUEST, (f"x{number}", "y" * 15_000)))
        many = [(f"x{number}-{one}", "") for one in range(90)]
        assert reader.read(written(*REQUEST, *many))
    assert sum(map(len, reader._kept)) < 64 * 1024


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("x-mq-language", "JAVA\r\nWARNING all is lost"),
        ("x", "a\nb"),
        ("x", "a\0b"),
        ("a b", "x"),
        ("a:b", "x"),
        ("a\n", "x"),
        ("X", "x"),
        ("", "x"),
    ],
)
def test_headers_that_would_be_more_than_one(name: str, value: str) -> None:
    """RFC 9113, 8.2.1. Texts of headers come into logs."""
    with pytest.raises(Malformed):
        HeaderReader().read(written(*REQUEST, (name, value)))
    with pytest.raises(Malformed):
        HeaderReader().read(written(*REQUEST[:2], (":path", "/\n")))


def test_of_two_headers_with_one_name_the_last_counts() -> None:
    assert HeaderReader().read(written(*REQUEST, ("x", "1"), ("x", "2")))["x"] == "2"


def test_bad_headers_are_not_kept() -> None:
    reader = HeaderReader()
    for _ in range(2):
        with pytest.raises(Malformed):
            reader.read(written(("x", "y")))


@pytest.mark.parametrize("size", [0, 1, 126, 127, 128, 254, 255, 300, 16511, 16512, 70000])
def test_texts_of_any_length_are_written(size: int) -> None:
    found = hpack.Decoder(max_header_list_size=10**6).decode(written(("a", "x" * size)))
    assert list(found) == [("a", "x" * size)]
