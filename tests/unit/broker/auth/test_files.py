"""The operator's files."""

from __future__ import annotations

import base64
from pathlib import Path

import pytest

from milepost.broker.auth import files
from milepost.broker.auth.files import WatchedFile, is_open_to_others, path_of, read_reference
from milepost.errors import InvalidSetting

SECRET = bytes(range(32))


def test_every_way_to_name_a_key(tmp_path: Path) -> None:
    file = tmp_path / "my key"
    file.write_bytes(SECRET)
    encoded = base64.b64encode(SECRET).decode()
    references = [
        f"data:;base64,{encoded}",
        f"data:application/octet-stream;base64,{encoded}",
        encoded,
        str(file),
        f"file://{file}",
        f"file://{str(file).replace(' ', '%20')}",
        f"file:{file}",
    ]
    assert {read_reference(reference) for reference in references} == {SECRET}
    assert [path_of(one) for one in references[:3]] == [None] * 3
    assert {path_of(one) for one in references[3:]} == {file}


@pytest.mark.parametrize("reference", ["data:;base64,***", "data:;base64", "data:;base64,QUFB*"])
def test_bad_data_is_refused_without_being_shown(reference: str) -> None:
    with pytest.raises(InvalidSetting) as refused:
        read_reference(reference)
    assert "***" not in str(refused.value)


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(InvalidSetting, match="cannot be read"):
        read_reference(str(tmp_path / "no such key"))


def test_a_path_that_looks_like_base64_is_a_path() -> None:
    reference = "/conf/keys/of/the/broker/that/nobody/has/made/yet/00"
    assert len(base64.b64decode(reference, validate=True)) >= 32
    with pytest.raises(InvalidSetting, match="cannot be read"):
        read_reference(reference)


def test_a_file_without_end_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "FILE_SIZE_MAX", 10)
    (tmp_path / "large").write_bytes(b"x" * 11)
    with pytest.raises(InvalidSetting, match="larger"):
        read_reference(str(tmp_path / "large"))


def test_a_watched_file_tells_when_it_changes(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"one")
    watched = WatchedFile(path)
    assert watched.read() == b"one"
    assert not watched.has_changed()
    path.unlink()
    assert not watched.has_changed()  # gone for a moment: somebody is replacing it
    path.write_bytes(b"three")
    assert watched.has_changed()
    assert watched.read() == b"three"
    assert not watched.has_changed()


@pytest.mark.parametrize(
    ("mode", "is_open"), [(0o600, False), (0o640, False), (0o644, True), (0o660, True)]
)
def test_a_key_that_others_can_read_or_change(tmp_path: Path, mode: int, is_open: bool) -> None:
    path = tmp_path / "key"
    path.write_bytes(b"")
    path.chmod(mode)
    assert is_open_to_others(path) is is_open
