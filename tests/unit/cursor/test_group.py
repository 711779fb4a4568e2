"""The arithmetic of broadcast groups."""

from __future__ import annotations

import pytest

from milepost.cursor.group import Member, Start, expired, minimum, start_of


def test_the_slowest_member_is_where_the_group_is() -> None:
    members = [Member("a", 9, is_connected=True), Member("b", 4), Member("c", 6)]
    assert minimum(members, before=1) == 4
    assert minimum([], before=1) == 1


@pytest.mark.parametrize(
    ("rule", "index"), [(Start.MINIMUM, 5), (Start.LATEST, 9), (Start.EARLIEST, 2)]
)
def test_where_a_stranger_starts(rule: Start, index: int) -> None:
    assert start_of(rule, at=5, first=2, end=9) == index


def test_a_stranger_starts_where_something_is() -> None:
    assert start_of(Start.MINIMUM, at=0, first=2, end=9) == 2
    assert start_of(Start.MINIMUM, at=12, first=2, end=9) == 9


def test_only_who_left_long_ago_is_forgotten() -> None:
    members = [
        Member("here", 0, is_connected=True, left_ms=0),
        Member("gone", 0, left_ms=100),
        Member("away", 0, left_ms=101),
    ]
    assert expired(members, now_ms=1100, after_ms=1000) == ["gone"]
