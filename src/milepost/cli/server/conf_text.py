"""Reads the text of configuration files.

Owns the two formats, Pulsar's `key=value` and TOML, and knows lines so that an error can name one.
It never opens a file and does not know which keys exist.

    >>> list(conf_lines("# ports\\nbrokerServicePort=6650\\n", "broker.conf"))
    [(2, 'brokerServicePort', '6650')]
    >>> list(toml_lines("port = 6650\\n", "milepost.toml"))
    [(1, 'port', 6650)]
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator

from milepost.errors import InvalidSetting

_AT_LINE = re.compile(r"\(at (?:line (\d+), column \d+|end of document)\)")


def conf_lines(text: str, name: str) -> Iterator[tuple[int, str, str]]:
    """Lines of `key=value`; blank ones and those that begin with `#` or `!` are comments."""
    for number, line in enumerate(text.splitlines(), 1):
        stripped = line.strip()
        if not stripped or stripped[0] in "#!":
            continue
        key, equals, value = stripped.partition("=")
        if not equals or not key.strip():
            raise InvalidSetting(f"{name}:{number}: {stripped[:80]!a}: expected key=value")
        yield number, key.strip(), value.strip()


def toml_lines(text: str, name: str) -> Iterator[tuple[int, str, object]]:
    """The keys of a TOML document. A table is one key whose value is a dict."""
    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        found = _AT_LINE.search(str(error))
        line = (found and found[1]) or str(len(text.splitlines()))
        what = _AT_LINE.sub("", str(error)).strip()
        raise InvalidSetting(f"{name}:{line}: not TOML: {what}") from None
    except RecursionError:
        raise InvalidSetting(f"{name}: not TOML: nested too deeply") from None
    lines = text.splitlines()
    for key, value in document.items():
        yield _line_of(key, lines), key, value


def _line_of(key: str, lines: list[str]) -> int:
    """Where a key of the document stands; tomllib does not say."""
    quoted = re.escape(key)
    starts = re.compile(rf"\s*(?:\[+\s*)?[\"']?{quoted}[\"']?\s*(?:[=.\]]|$)")
    return next((number for number, line in enumerate(lines, 1) if starts.match(line)), 1)
