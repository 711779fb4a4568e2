from __future__ import annotations

import pytest

from milepost.errors import ProtocolError
from milepost.wire.frames import (
    Unfinished,
    command_frame,
    crc32c,
    entry_frame,
    frame_bounds,
)

PING = bytes.fromhex("000000090000000508129201 00".replace(" ", ""))
FRAME_MAX = 1000


def reason_of(data: bytes) -> str:
    with pytest.raises(ProtocolError) as caught:
        frame_bounds(data, 0, FRAME_MAX)
    return caught.value.reason


def test_the_checksum_is_crc32c() -> None:
    assert crc32c(b"123456789") == 0xE3069283
    assert crc32c(b"456789", crc32c(b"123")) == 0xE3069283
    assert crc32c(b"") == 0


def test_a_frame_ends_where_its_sizes_say() -> None:
    assert command_frame(bytes.fromhex("0812920100")) == PING
    end = 2 + len(PING)
    assert frame_bounds(b"xx" + PING + b"more", 2, FRAME_MAX) == (end, end)


def test_a_frame_with_an_entry_counts_it() -> None:
    head = entry_frame(b"cmd", 10)
    assert head == bytes.fromhex("0000001100000003") + b"cmd"
    assert frame_bounds(head + bytes(10), 0, FRAME_MAX) == (len(head), len(head) + 10)


@pytest.mark.parametrize("cut", range(len(PING)))
def test_a_frame_that_is_not_all_there(cut: int) -> None:
    assert frame_bounds(PING[:cut], 0, FRAME_MAX) is None


@pytest.mark.parametrize("total", [0, 1, 3])
def test_too_short_for_a_command(total: int) -> None:
    assert reason_of(total.to_bytes(4, "big")) == "frame_short"


@pytest.mark.parametrize("total", [FRAME_MAX + 1, 2**31 - 1, 2**31, 2**32 - 1])
def test_too_large(total: int) -> None:
    """Judged by four bytes, before any of the rest has come."""
    assert reason_of(total.to_bytes(4, "big")) == "frame_too_large"


def test_http_is_too_large() -> None:
    assert reason_of(b"GET / HTTP/1.1\r\n") == "frame_too_large"


@pytest.mark.parametrize(("total", "size"), [(4, 0), (9, 0), (9, 6), (9, 2**32 - 1), (4, 1)])
def test_a_command_that_does_not_fit(total: int, size: int) -> None:
    assert reason_of(total.to_bytes(4, "big") + size.to_bytes(4, "big")) == "bad_command_size"


def test_the_largest_frame() -> None:
    data = FRAME_MAX.to_bytes(4, "big") + (5).to_bytes(4, "big") + bytes(FRAME_MAX - 4)
    assert frame_bounds(data, 0, FRAME_MAX) == (13, 4 + FRAME_MAX)


class TestUnfinished:
    def test_nothing_waits_nothing_is_copied(self) -> None:
        unfinished = Unfinished()
        assert unfinished.join(PING) is PING

    def test_bytes_wait_until_their_frame_can_be_whole(self) -> None:
        unfinished = Unfinished()
        unfinished.keep(b"before" + PING[:8], 6)
        assert len(unfinished) == 8
        for at in range(8, len(PING) - 1):
            assert unfinished.join(PING[at : at + 1]) == b""
        assert unfinished.join(PING[-1:] + b"next") == PING + b"next"
        assert len(unfinished) == 0

    def test_sizes_are_looked_at_as_soon_as_they_are_there(self) -> None:
        unfinished = Unfinished()
        unfinished.keep(PING[:1], 0)
        assert unfinished.join(PING[1:3]) == b""
        assert unfinished.join(PING[3:4]) == PING[:4]
        unfinished.keep(PING[:4], 0)
        assert unfinished.join(PING[4:7]) == b""
        assert unfinished.join(PING[7:8]) == PING[:8]

    def test_what_is_kept_is_what_came_not_what_was_promised(self) -> None:
        unfinished = Unfinished()
        unfinished.keep((2**31 - 1).to_bytes(4, "big") + bytes(4), 0)
        assert len(unfinished) == 8

    def test_nothing_to_keep(self) -> None:
        unfinished = Unfinished()
        unfinished.keep(PING, len(PING))
        assert unfinished.join(b"x") == b"x"

    def test_dropped(self) -> None:
        unfinished = Unfinished()
        unfinished.keep(PING[:5], 0)
        unfinished.drop()
        assert unfinished.join(PING) == PING


@pytest.mark.parametrize(
    ("beginning", "other"),
    [
        (b"GET / HTTP/1.1\r\n", "HTTP"),
        (b"POST /admin", "HTTP"),
        (b"HTTP/1.1 400 Bad Request", "HTTP"),
        (bytes.fromhex("16030100c8010000"), "TLS"),
        (bytes.fromhex("15030300020246"), "TLS"),
    ],
)
def test_another_protocol_is_called_by_its_name(beginning: bytes, other: str) -> None:
    for data in (beginning[:4], beginning):
        with pytest.raises(ProtocolError, match=f"the peer speaks {other} here"):
            frame_bounds(data, 0, 64 * 1024 * 1024)
