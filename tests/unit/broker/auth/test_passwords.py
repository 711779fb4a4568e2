"""Passwords of an htpasswd file. The hashes are those that Apache's tool and OpenSSL make."""

from __future__ import annotations

import bcrypt
import pytest

from milepost.broker.auth.passwords import REMEMBERED_MAX, PasswordTable, apr1
from milepost.errors import InvalidInput

# One salt: the hash is part of the names of tests, which must be the same everywhere.
_SALT = b"$2b$04$abcdefghijklmnopqrstuu"
BCRYPT = bcrypt.hashpw(b"secret", _SALT).decode().replace("$2b$", "$2y$")
SHA = "{SHA}5en6G6MezRroT3XKqkdPOmY/BfQ="


# Made by `openssl passwd -apr1 -salt SALT PASSWORD`.
@pytest.mark.parametrize(
    ("password", "hashed"),
    [
        ("myPassword", "$apr1$r31.....$HqJZimcKQFAMYayBlzkrA/"),
        ("", "$apr1$saltsalt$a8ml/vK5HEjiZ5oypDWA7/"),
    ],
)
def test_apr1_is_apaches(password: str, hashed: str) -> None:
    assert apr1(password.encode(), hashed.split("$")[2]) == hashed


@pytest.mark.parametrize("hashed", [BCRYPT, SHA, apr1(b"secret", "abcdefgh")])
def test_the_right_password_and_no_other(hashed: str) -> None:
    table = PasswordTable.parse(f"# users\n\nalice:{hashed}\n")
    assert table.is_right("alice", "secret")
    for wrong in ("", "Secret", "secret ", "secret\0", "x" * 5000):
        if hashed == BCRYPT and wrong == "secret\0":
            continue  # bcrypt ends at a zero byte, in every implementation
        assert not table.is_right("alice", wrong)
    assert not table.is_right("bob", "secret")
    assert not table.is_right("", "secret")


def test_what_is_quick_to_guess_from_is_weak() -> None:
    table = PasswordTable.parse(f"a:{BCRYPT}\nb:{SHA}\nc:{apr1(b'x', 'salt')}\n")
    assert table.weak == ["b", "c"]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("alice", "line 1: expected user:hash"),
        (":hash", "line 1: expected user:hash"),
        (f"a:{SHA}\na:{SHA}", "line 2: the user is there already"),
        ("\na:hunter2", "line 2: the hash is none of"),
        ("a:rqXexS6ZhobKA", "none of"),  # DES
        (f"a:{BCRYPT.replace('$04$', '$31$')}", "none of"),  # would take days
        ("a:$2y$04$short", "none of"),
        ("a:{SHA}short", "none of"),
    ],
)
def test_a_line_that_is_none_is_named_and_not_shown(text: str, why: str) -> None:
    with pytest.raises(InvalidInput, match=why) as refused:
        PasswordTable.parse(text)
    assert "hunter2" not in str(refused.value)


def test_an_empty_table_lets_nobody_in() -> None:
    assert not PasswordTable.parse("").is_right("alice", "")


def test_a_long_password_counts_as_far_as_bcrypt_reads() -> None:
    hashed = bcrypt.hashpw(b"p" * 72, bcrypt.gensalt(4)).decode()
    assert PasswordTable.parse(f"a:{hashed}").is_right("a", "p" * 100)


def test_what_was_right_is_remembered_and_only_that() -> None:
    table = PasswordTable.parse(f"alice:{SHA}")
    assert not table.is_remembered("alice", "secret")
    table.remember("alice", "secret")
    assert table.is_remembered("alice", "secret")
    assert not table.is_remembered("alice", "other")
    assert not table.is_remembered("alic", "e:secret")
    for number in range(REMEMBERED_MAX):
        table.remember("bob", str(number))
    assert not table.is_remembered("alice", "secret")
    assert "secret" not in repr(vars(table))
