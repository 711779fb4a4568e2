"""Flags are settings by another spelling."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from milepost.broker.settings.settings import TABLE, Settings
from milepost.cli.server.serve import serve
from milepost.cli.server.settings_options import FLAGS, load_settings
from milepost.errors import InvalidSetting


def test_flags_are_settings() -> None:
    assert set(FLAGS) <= set(TABLE)


def test_flags_and_assignments_become_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MILEPOST_HTTP_PORT", "9")
    loaded = load_settings(
        data="x", port="0", host=None, assignments=("default_num_partitions=5", "cluster_name=a=b")
    )
    assert loaded.settings == Settings(
        data=Path("x"), port=0, http_port=9, default_num_partitions=5, cluster_name="a=b"
    )
    assert loaded.origins["port"] == "--port"
    assert loaded.origins["http_port"] == "MILEPOST_HTTP_PORT"


def test_a_flag_is_named_as_it_is_written() -> None:
    with pytest.raises(InvalidSetting, match=r"^--http-port: http_port = 'x': "):
        load_settings(http_port="x")


def test_help_tells_defaults() -> None:
    lines = CliRunner().invoke(serve, ["--help"]).output.split()
    told = " ".join(lines)
    for default in ("data", "127.0.0.1", "6650", "8080", "-1", "1"):
        assert f"[default: {default}]" in told
    assert "[default: ]" not in told
