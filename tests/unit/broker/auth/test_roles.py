"""What a role may look like, and which wildcard stands for it."""

from __future__ import annotations

import pytest

from milepost.broker.auth.roles import Identity, check_role, matches
from milepost.errors import NotAuthenticated


@pytest.mark.parametrize("role", ["admin", "spark-7", "spiffe://acme/x", "Zoë", "a b"])
def test_roles(role: str) -> None:
    assert check_role(role) == role


@pytest.mark.parametrize(
    "role",
    ["", " ", " a", "a\n", "a\nb", "a\rb", "a\x00", "a\x1b[2J", "‮a", "a" * 1025, None, 7, ["a"]],
)
def test_what_is_no_role_is_not_let_in(role: object) -> None:
    with pytest.raises(NotAuthenticated) as refused:
        check_role(role)
    assert refused.value.reason == "bad_role"
    assert str(refused.value).isprintable()


@pytest.mark.parametrize(
    ("granted", "role", "stands"),
    [
        ("spark-*", "spark-7", True),
        ("spark-*", "spark-", True),
        ("spark-*", "a-spark-7", False),
        ("*-reader", "x-reader", True),
        ("*-reader", "reader", False),
        ("*", "anyone", True),
        ("a*c", "abc", False),  # only at an end, as upstream
        ("abc", "abc", False),  # no wildcard: the exact rule is another
    ],
)
def test_wildcards(granted: str, role: str, stands: bool) -> None:
    assert matches(granted, role) is stands


def test_an_identity_says_for_whom_it_speaks() -> None:
    assert str(Identity("reporter", "token")) == "reporter"
    assert str(Identity("proxy", "token", None, "reporter")) == "reporter (by proxy)"
