"""`milepost context`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from unit.cli.conftest import Line

from milepost.cli.connection.contexts import load_contexts


def test_add_use_list_remove(line: Line) -> None:
    line("context", "add", "local", "--admin-url", "http://127.0.0.1:8080")
    line("context", "add", "prod", "--admin-url", "https://p:8443", "--token", "secret")
    line("context", "use", "prod")
    assert line("context", "list") == (
        "CURRENT  NAME   ADMIN_URL              URL  CREDENTIALS\n"
        "         local  http://127.0.0.1:8080\n"
        "*        prod   https://p:8443              token\n"
    )
    line("context", "remove", "prod")
    assert "prod" not in line("context", "list", "-o", "json")


def test_a_name_that_is_not_there(line: Line) -> None:
    line("context", "use", "x")
    assert (line.code, line.err) == (
        5,
        "milepost: context 'x': there is none of that name; `milepost context list` shows them\n",
    )
    line("--context", "x", "tenants", "list")
    assert line.code == 5


def test_files_are_kept_by_their_whole_path(
    line: Line, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "app.token").write_text("x")
    monkeypatch.chdir(tmp_path)
    line("context", "add", "a", "--token-file", "app.token", "--tls-cert", "~/key.pem")
    kept = load_contexts().get("a")
    assert kept["token_file"] == str(tmp_path / "app.token")
    assert kept["tls_certificate"] == str(Path.home() / "key.pem")


def test_one_is_shown_without_its_secrets(line: Line, monkeypatch: pytest.MonkeyPatch) -> None:
    line("context", "show")
    assert (line.code, line.err) == (
        5,
        "milepost: no context is in use; `milepost context use NAME` chooses one\n",
    )
    line("context", "add", "local", "--admin-url", "http://127.0.0.1:8080")
    line("context", "add", "prod", "--admin-url", "https://p:8443", "--token", "s3cret")
    assert line("context", "show") == (
        "FIELD       VALUE\n"
        "name        local\n"
        "is_current  true\n"
        "admin_url   http://127.0.0.1:8080\n"
    )
    shown = line("context", "show", "prod", "-o", "json")
    assert json.loads(shown) == {
        "name": "prod",
        "is_current": False,
        "admin_url": "https://p:8443",
        "token": "(hidden)",
    }
    monkeypatch.setenv("MILEPOST_CONTEXT", "prod")
    assert "s3cret" not in line("context", "show")
    assert "prod" in line.out
    line("context", "show", "missing")
    assert line.code == 5
