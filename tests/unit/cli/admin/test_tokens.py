"""`milepost tokens`: keys and tokens that the broker takes, and mistakes told in one line."""

from __future__ import annotations

import base64
import json
import stat
import time
from pathlib import Path

import pytest
from unit.cli.conftest import Line

from milepost.broker.auth.keys import public_key, secret_key
from milepost.broker.auth.tokens import TokenVerifier, sign
from milepost.cli.admin.tokens import PAIR_ALGORITHMS
from milepost.cli.exits import Exit

SECRET = bytes(range(32))
KEY = f"data:;base64,{base64.b64encode(SECRET).decode()}"


@pytest.mark.parametrize(("algorithm", "size"), [("HS256", 32), ("HS384", 48), ("HS512", 64)])
def test_a_secret_is_for_its_owner_alone(
    line: Line, tmp_path: Path, algorithm: str, size: int
) -> None:
    file = tmp_path / "secret.key"
    line("tokens", "create-secret-key", "--output", str(file), "-a", algorithm)
    assert line.code == 0
    assert len(file.read_bytes()) == size
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


def test_a_secret_is_printed_or_written_in_base64(line: Line, tmp_path: Path) -> None:
    assert len(base64.b64decode(line("tokens", "create-secret-key"))) == 32
    line("tokens", "create-secret-key", "-b", "-o", str(tmp_path / "k"))
    assert len(base64.b64decode((tmp_path / "k").read_text())) == 32


def test_a_key_that_is_there_is_not_written_over(line: Line, tmp_path: Path) -> None:
    file = tmp_path / "secret.key"
    file.write_bytes(b"mine")
    line("tokens", "create-secret-key", "-o", str(file))
    assert line.code == Exit.CONFLICT
    assert file.read_bytes() == b"mine"


@pytest.mark.parametrize("algorithm", PAIR_ALGORITHMS)
def test_a_pair_signs_and_verifies(line: Line, tmp_path: Path, algorithm: str) -> None:
    private, public = tmp_path / "private.key", tmp_path / "public.key"
    line(
        *("tokens", "create-key-pair", "-a", algorithm),
        *("--output-private-key", str(private), "--output-public-key", str(public)),
    )
    assert stat.S_IMODE(private.stat().st_mode) == 0o600
    token = line(
        *("tokens", "create", "--private-key", f"file://{private}", "--subject", "reporter"),
        *("-a", algorithm),
    ).strip()
    verifier = TokenVerifier(public_key(public.read_bytes()))
    assert verifier.verify(token, 0).role == "reporter"
    said = line("tokens", "validate", token, "--public-key", str(public))
    assert json.loads(said) == {"sub": "reporter"}


def test_a_token_expires_when_it_was_told_to(line: Line) -> None:
    before = int(time.time())
    args = ("tokens", "create", "--secret-key", KEY, "--subject", "a", "--audience", "here")
    token = line(*args, "--expiry-time", "30d").strip()
    _, claims = line("tokens", "show", token).split("---")
    found = json.loads(claims)
    assert (found["sub"], found["aud"]) == ("a", "here")
    assert 0 <= found["exp"] - before - 30 * 86_400 < 60


def test_a_token_comes_from_anywhere(
    line: Line, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    token = sign(secret_key(SECRET), {"sub": "a"})
    (tmp_path / "token").write_text(f"{token}\n")
    by_file = line("tokens", "show", "--token-file", str(tmp_path / "token"))
    monkeypatch.setenv("TOKEN", token)
    assert line("tokens", "show") == by_file == line("tokens", "show", token)
    assert json.loads(by_file.split("---")[0])["alg"] == "HS256"


@pytest.mark.parametrize(
    ("token", "why"),
    [
        (sign(secret_key(SECRET), {"sub": "a", "exp": 1}), "expired"),
        (sign(secret_key(b"x" * 32), {"sub": "a"}), "signature"),
        (sign(secret_key(SECRET), {"sub": "a", "nbf": 2**33}), "not valid yet"),
        ("a.b.c", "not a JSON Web Token"),
        (sign(secret_key(SECRET), {}), "no claim sub"),
    ],
)
def test_a_token_that_would_not_be_let_in(line: Line, token: str, why: str) -> None:
    line("tokens", "validate", token, "--secret-key", KEY)
    assert line.code == Exit.AUTH
    assert why in line.err
    assert token not in line.err


def test_an_audience_is_asked_for(line: Line) -> None:
    token = sign(secret_key(SECRET), {"sub": "a", "aud": "here"})
    for audience, code in (("here", 0), ("there", Exit.AUTH)):
        line("tokens", "validate", token, "--secret-key", KEY, "--audience", audience)
        assert line.code == code


@pytest.mark.parametrize(
    ("args", "why"),
    [
        (("create", "--subject", "a"), "one of --secret-key and --private-key"),
        (("create", "--subject", "a\nb", "--secret-key", KEY), "U+000A"),
        (("create", "--subject", "a", "--secret-key", "data:;base64,c2hvcnQ="), "5 bytes"),
        (("create", "--subject", "a", "--secret-key", KEY, "-a", "HS512"), "not for this key"),
        (("create", "--subject", "a", "--secret-key", KEY, "-e", "-1d"), "a time to come"),
        (("create", "--subject", "a", "--secret-key", KEY, "-e", "soon"), "expected a time"),
        (("create", "--subject", "a", "--private-key", KEY), "not a private key"),
        (("show",), "no token"),
        (("validate", "x"), "one of --secret-key and --public-key"),
        (("create-secret-key", "-a", "none"), "none"),
    ],
)
def test_mistakes(line: Line, args: tuple[str, ...], why: str) -> None:
    line("tokens", *args)
    assert line.code == Exit.USAGE
    assert why in line.err
