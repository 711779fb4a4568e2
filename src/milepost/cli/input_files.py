"""Reads files that a command line names.

A file that is not there is `MissingFile` (exit 5) for every command; one that is no file, may not be
read or is not text is `InvalidInput` (exit 2).

    names = read_text("topics.txt").splitlines()
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import click

from milepost.errors import InvalidInput, MissingFile


def read_bytes(name: str | os.PathLike[str]) -> bytes:
    """What a file holds; `-` is the standard input."""
    if str(name) == "-":
        return sys.stdin.buffer.read()
    try:
        return Path(name).read_bytes()
    except FileNotFoundError:
        raise MissingFile(f"{name}: there is no such file") from None
    except OSError as error:
        raise InvalidInput(f"{name}: cannot be read: {error.strerror}") from None


def read_text(name: str | os.PathLike[str]) -> str:
    """The same as text."""
    try:
        return read_bytes(name).decode("utf-8")
    except UnicodeDecodeError as error:
        raise InvalidInput(f"{name}: not UTF-8 at byte {error.start}") from None


class InputFile(click.ParamType):  # type: ignore[type-arg]  # not generic before 8.4
    """A click type: the bytes of a file."""

    name = "file"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        return read_bytes(value)
