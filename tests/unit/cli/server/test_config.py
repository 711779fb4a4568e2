"""`milepost config show`: what it prints is a file that gives the same settings."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from milepost.broker.settings.settings import TABLE, Settings
from milepost.cli.main import run
from milepost.cli.server.config import lines
from milepost.cli.server.sources import Loaded, load

ODD = Settings(
    data=Path('a "quoted" \\ path'),
    host="::",
    advertised_address="mq.example.com",
    keep_alive_interval_s=0.25,
    max_message_size=1025,
    tail_cache_size=0,
    deduplication=True,
)


@pytest.mark.parametrize("settings", [Settings(), ODD])
@pytest.mark.parametrize("origin", [False, True])
def test_what_is_shown_is_read_back(tmp_path: Path, settings: Settings, origin: bool) -> None:
    shown = lines(Loaded(settings, dict.fromkeys(TABLE, "x")), origin=origin)
    file = tmp_path / "shown.toml"
    file.write_text("\n".join(shown), "utf-8")
    assert load(toml=file).settings == settings


def test_origins_are_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "broker.conf").write_text("webServicePort=8081\nfoo=1\n", "utf-8")
    monkeypatch.setenv("MILEPOST_HOST", "::1")
    flags = ["--conf", str(tmp_path / "broker.conf"), "--set", "deduplication=true", "--port", "1"]
    assert run(["config", "show", "--origin", *flags]) == 0
    shown = capsys.readouterr()
    found = {
        line.split(" = ")[0]: line.rsplit("# ", 1)[1]
        for line in shown.out.splitlines()
        if "=" in line
    }
    assert found["http_port"] == "broker.conf:1"
    assert found["host"] == "MILEPOST_HOST"
    assert found["deduplication"] == "--set"
    assert found["port"] == "--port"
    assert found["data"] == "default"
    assert shown.err == "milepost: not used here, from broker.conf: foo\n"


def test_without_being_asked_no_origin_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["config", "show"]) == 0
    assert "port = 6650\n" in capsys.readouterr().out


def test_for_programs(capsys: pytest.CaptureFixture[str]) -> None:
    flags = ["--port", "7000", "--set", "token_secret_key=data:;base64,c2VjcmV0"]
    assert run(["config", "show", "-o", "json", *flags]) == 0
    text = capsys.readouterr().out
    shown = json.loads(text)
    assert list(shown) == list(TABLE)
    assert (shown["port"], shown["host"], shown["deduplication"]) == (7000, "127.0.0.1", False)
    assert "c2VjcmV0" not in text
    assert run(["config", "show", "-o", "json", "--origin", *flags]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["port"] == {"value": 7000, "from": "--port"}
    assert told["host"]["from"] == "default"
