"""Role names: which are valid, and which wildcard matches which.

Owns what a role may look like and which wildcard matches it; never where it came from.

    >>> matches("spark-*", "spark-7"), matches("*-reader", "spark-7")
    (True, False)
"""

from __future__ import annotations

from typing import NamedTuple

from milepost.errors import InvalidInput, NotAuthenticated
from milepost.positions.labels import check_label

# Written `*`: it matches when it ends a granted role, or begins one.
WILDCARD = "*"

# How the holder of a JSON Web Token proves its role, by the name that the protocol has for it.
TOKEN = "token"  # noqa: S105


class Identity(NamedTuple):
    """Who is at the other end of a connection, or behind a request."""

    role: str

    # How it was proved: "token", "basic", "tls"; "anonymous" if nothing had to be.
    method: str

    # Wall-clock time from which the proof no longer holds; None if it holds for ever.
    expires_at_ms: int | None = None

    # For whom a proxy speaks. Invariant: empty unless `role` is a proxy role.
    original_role: str = ""

    @property
    def speaks_as(self) -> str:
        """The role to which belongs what it makes: behind a proxy that of the proxy's client."""
        return self.original_role or self.role

    def __str__(self) -> str:
        return f"{self.original_role} (by {self.role})" if self.original_role else self.role


def check_role(role: object) -> str:
    """The role, if it can be one: text of one line that no log or terminal misreads."""
    if not isinstance(role, str) or not role.strip() or role != role.strip():
        raise NotAuthenticated("bad_role", f"{_shown(role)} is not the name of a role")
    try:
        check_label("role", role)
    except InvalidInput as error:
        raise NotAuthenticated("bad_role", str(error)) from None
    return role


def matches(granted: str, role: str) -> bool:
    """Does a role that was granted something with a wildcard stand for this role?

    As upstream: at its end the wildcard stands for any suffix, at its beginning for any prefix.
    """
    return (granted.endswith(WILDCARD) and role.startswith(granted[:-1])) or (
        granted.startswith(WILDCARD) and role.endswith(granted[1:])
    )


def _shown(role: object) -> str:
    return f"{role[:40]!a}" if isinstance(role, str) else f"a {type(role).__name__}"
