"""Reads key, password and certificate files, again when they change.

The only module here that opens a file. A key may also stand in the setting itself, as upstream has it:
`data:;base64,…`, `file:///path`, a path, or base64.

    >>> read_reference("data:;base64,c2VjcmV0")
    b'secret'
"""

from __future__ import annotations

import base64
import binascii
import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

from milepost.errors import InvalidSetting, MissingFile

if TYPE_CHECKING:
    from milepost.broker.auth.keys import Key

FILE_SIZE_MAX = 16 * 1024 * 1024

_DATA = "data:"
_FILE = "file:"


class WatchedFile:
    """A file that may be replaced while the broker runs."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._seen: tuple[int, ...] | None = None

    def read(self) -> bytes:
        """What it holds now; `has_changed` is judged from here on."""
        self._seen = self._signature()
        return read_file(self.path)

    def has_changed(self) -> bool:
        """Is it another file, or other content, than was read? One that is gone for a moment is not."""
        now = self._signature()
        return now is not None and now != self._seen

    def _signature(self) -> tuple[int, ...] | None:
        try:
            found = self.path.stat()
        except OSError:
            return None
        return found.st_mtime_ns, found.st_size, found.st_ino


class KeyFile(WatchedFile):
    """A file that holds a key. `parse` makes one of its bytes, or says why it is none."""

    def __init__(self, path: Path, parse: Callable[[bytes], Key]) -> None:
        super().__init__(path)
        self._parse = parse
        self._data = self.read()

    def read_key(self) -> Key | None:
        """The key that it holds now; None if it is the one that it held."""
        data = self.read()
        if data == self._data:
            return None
        key = self._parse(data)
        self._data = data
        return key


def read_file(path: Path) -> bytes:
    try:
        with open(path, "rb") as file:
            data = file.read(FILE_SIZE_MAX + 1)
    except FileNotFoundError:
        raise MissingFile(f"{path}: cannot be read: there is no such file") from None
    except OSError as error:
        raise InvalidSetting(f"{path}: cannot be read: {error.strerror}") from None
    if len(data) > FILE_SIZE_MAX:
        raise InvalidSetting(f"{path}: larger than {FILE_SIZE_MAX} bytes")
    return data


def path_of(reference: str) -> Path | None:
    """The file that a setting names; None if the value stands in the setting itself."""
    if reference.startswith(_DATA):
        return None
    if reference.startswith(_FILE):
        return Path(unquote(urlsplit(reference).path or reference.removeprefix(_FILE)))
    path = Path(reference)
    # A path may look like base64. A key made from the text of a missing path could be guessed.
    is_path = path.is_absolute() or path.exists() or _base64(reference) is None
    return path if is_path else None


def read_reference(reference: str) -> bytes:
    """The bytes that a setting means. An error says which kind of reference it was, not what it holds."""
    path = path_of(reference)
    if path is not None:
        return read_file(path)
    if not reference.startswith(_DATA):
        data = _base64(reference)
        assert data is not None
        return data
    head, comma, body = reference.removeprefix(_DATA).partition(",")
    data = _base64(body) if head.endswith(";base64") else unquote(body).encode()
    if not comma or data is None:
        raise InvalidSetting("a data: value that is not data:;base64,…")
    return data


def is_open_to_others(path: Path) -> bool:
    """Can other users of this machine read the file?"""
    return bool(os.stat(path).st_mode & (stat.S_IROTH | stat.S_IWOTH | stat.S_IWGRP))


def _base64(text: str) -> bytes | None:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return None
