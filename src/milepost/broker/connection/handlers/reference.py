"""Makes docs/wire.md from the docstrings of the handlers.

python -m milepost.broker.connection.handlers.reference > docs/wire.md
"""

from __future__ import annotations

import re
import sys
import textwrap

from milepost.broker.auth.operations import Operation
from milepost.broker.connection.handlers import EVENT_HANDLERS, HANDLERS
from milepost.wire.commands import FROM_BROKER, FROM_CLIENT, Kind, kind_name

# Commands that the protocol object answers by itself.
ANSWERED_BY_PROTOCOL: dict[int, tuple[str, str]] = {
    Kind.PING: (
        "wire/protocol.py",
        "Answered with PONG at once, ahead of everything that waits to be sent.",
    ),
    Kind.PONG: ("wire/protocol.py", "Shows that the client is alive, as any command does."),
}

INTRODUCTION = """\
# The wire

Milepost speaks Apache Pulsar's binary protocol, version 21 and below. This page is made from the handlers
(`python -m milepost.broker.connection.handlers.reference`). What is not listed is refused: an unknown
command closes its connection with a counted reason, an unknown enum value is answered with
`UnsupportedVersionError`.

`CommandSeek.consumer_epoch` (field 5) is PIP-194's and is not known upstream; it is always optional.

## Commands from clients

"""


def page() -> str:
    parts = [INTRODUCTION]
    for kind in sorted(FROM_CLIENT):
        parts.append(_section(kind))
    sent = ", ".join(kind_name(kind) for kind in sorted(FROM_BROKER))
    parts.append("## Commands to clients\n\n")
    parts.append(_paragraph(f"{sent}.") + "\n\n")
    parts.append(
        _paragraph(
            "Some clients drop their connection on a command they do not list; those are not sent to them "
            "(`wire/peer.py`)."
        )
        + "\n"
    )
    return "".join(parts)


def _section(kind: int) -> str:
    handler = HANDLERS.get(kind) or EVENT_HANDLERS.get(kind)
    if handler is None:
        where, text = ANSWERED_BY_PROTOCOL[kind]
        return f"### {kind_name(kind)} (`{where}`)\n\n{_paragraph(text)}\n\n"
    where = handler.handle.__module__.removeprefix("milepost.").replace(".", "/")
    text, *items = re.split(r"^ *- ", handler.doc, flags=re.MULTILINE)
    if handler.needs is not Operation.OPEN:
        text += f" Needs {handler.needs.meaning}."
    body = _paragraph(text)
    if items:
        body += "\n\n" + "\n".join(_paragraph(item, "- ") for item in items)
    return f"### {kind_name(kind)} (`{where}.py`)\n\n{body}\n\n"


def _paragraph(text: str, mark: str = "") -> str:
    return textwrap.fill(
        " ".join(text.split()),
        118,
        initial_indent=mark,
        subsequent_indent=" " * len(mark),
        break_long_words=False,
        break_on_hyphens=False,
    )


if __name__ == "__main__":
    sys.stdout.write(page())
