"""The file of named brokers.

    {"current": "staging", "contexts": {"staging": {"admin_url": "http://broker:8080"}}}

The file is for its owner only: a context may hold a token. It is `$MILEPOST_CONTEXTS`, or
`milepost/contexts.json` in the user's configuration directory, and is replaced in one step.
"""

from __future__ import annotations

import json
import os
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from milepost.cli.exits import CommandFailed, Exit

VARIABLE = "MILEPOST_CONTEXTS"

# What a context may say; `connection.py` reads it.
FIELDS = (
    "admin_url",
    "url",
    "token",
    "token_file",
    "user",
    "password",
    "tls_trust_certs",
    "tls_certificate",
    "tls_key",
    "tls_allow_insecure",
)
SECRET_FIELDS = ("token", "password")
FILE_FIELDS = ("token_file", "tls_trust_certs", "tls_certificate", "tls_key")

_NAME = re.compile(r"[A-Za-z0-9_.-]{1,64}")


@dataclass
class Contexts:
    current: str | None = None
    named: dict[str, dict[str, Any]] = field(default_factory=dict)

    def get(self, name: str) -> dict[str, Any]:
        if name not in self.named:
            raise CommandFailed(
                f"context {name!a}: there is none of that name; `milepost context list` shows them",
                Exit.NOT_FOUND,
            )
        return self.named[name]

    def add(self, name: str, values: dict[str, Any]) -> None:
        if not _NAME.fullmatch(name):
            raise CommandFailed(
                f"context {name!a}: a name is 1 to 64 of A-Z a-z 0-9 _ . -", Exit.USAGE
            )
        self.named[name] = {key: values[key] for key in FIELDS if values.get(key)}
        self.current = self.current or name

    def remove(self, name: str) -> None:
        self.get(name)
        del self.named[name]
        if self.current == name:
            self.current = None


def contexts_file() -> Path:
    if given := os.environ.get(VARIABLE):
        return Path(given)
    base = os.environ.get("XDG_CONFIG_HOME") or os.path.expanduser("~/.config")
    return Path(base) / "milepost" / "contexts.json"


def load_contexts() -> Contexts:
    """What the file says; none if there is no file."""
    file = contexts_file()
    try:
        document = json.loads(file.read_text("utf-8"))
        named = document["contexts"]
        current = document.get("current")
        known = isinstance(named, dict) and all(isinstance(one, dict) for one in named.values())
        if not known or not isinstance(current, str | None):
            raise ValueError
    except (FileNotFoundError, NotADirectoryError):
        return Contexts()
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise CommandFailed(
            f"{file}: not a file of contexts; move it away, and add them again", Exit.USAGE
        ) from None
    return Contexts(current, named)


def save_contexts(contexts: Contexts) -> None:
    file = contexts_file()
    file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    beside = file.with_name(f"{file.name}.{os.getpid()}")
    handle = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(handle, "w", encoding="utf-8") as text:
        json.dump({"current": contexts.current, "contexts": contexts.named}, text, indent=2)
        text.write("\n")
    beside.rename(file)
