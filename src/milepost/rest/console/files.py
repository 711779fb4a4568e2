"""Loads the files of the console, each with its kind and its tag.

They are few and small, part of the package, and read once.

    files()["index.html"].kind              # text/html; charset=utf-8
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from hashlib import blake2b
from importlib import resources
from importlib.resources.abc import Traversable
from types import MappingProxyType
from typing import Final, NamedTuple

KINDS: Final = {
    "html": "text/html; charset=utf-8",
    "css": "text/css; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "svg": "image/svg+xml",
}


class ConsoleFile(NamedTuple):
    body: bytes
    kind: str
    tag: str
    """Changes with the body; quoted, as HTTP wants it."""


@functools.cache
def files() -> Mapping[str, ConsoleFile]:
    """By path below `/console/`."""
    root = resources.files(__package__) / "static"
    return MappingProxyType(dict(_found(root, "")))


def _found(folder: Traversable, prefix: str) -> list[tuple[str, ConsoleFile]]:
    found: list[tuple[str, ConsoleFile]] = []
    for one in folder.iterdir():
        path = f"{prefix}{one.name}"
        ending = one.name.rpartition(".")[2]
        if one.is_dir():
            found += _found(one, f"{path}/")
        elif ending in KINDS:
            body = one.read_bytes()
            tag = f'"{blake2b(body, digest_size=12).hexdigest()}"'
            found.append((path, ConsoleFile(body, KINDS[ending], tag)))
    return found
