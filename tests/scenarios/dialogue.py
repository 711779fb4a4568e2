"""The text of a dialogue: blocks of commands and what the broker says to them.

    # A comment; it stays where it is when the truth is written anew.
    publish 5 ; subscribe s exclusive ; flow s 3
    ----
    deliver s 1:0 1:1 1:2

A block ends with an empty line. Several commands on a line are separated by semicolons; nothing is said
before the last command of a block was given and everything that follows from it has happened.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable
from typing import NamedTuple

RULE = "----"


class Command(NamedTuple):
    verb: str
    words: list[str]
    options: dict[str, str]

    @classmethod
    def parse(cls, text: str) -> Command:
        verb, *rest = shlex.split(text, comments=True)
        words = [word for word in rest if "=" not in word]
        options = dict(word.split("=", 1) for word in rest if "=" in word)
        return cls(verb, words, options)


class Block(NamedTuple):
    head: list[str]
    """Comments and commands, as written."""
    said: list[str]
    line: int

    @property
    def commands(self) -> list[Command]:
        lines = (line.partition("#")[0] for line in self.head)
        parts = (part.strip() for line in lines for part in line.split(";"))
        return [Command.parse(part) for part in parts if part]


def read(text: str) -> list[Block]:
    blocks: list[Block] = []
    head: list[str] = []
    said: list[str] | None = None
    first = 1
    for number, line in enumerate([*text.splitlines(), ""], 1):
        if line.strip() == RULE:
            assert said is None, f"line {number}: a second rule in one block"
            said = []
        elif said is not None and line.strip():
            said.append(line.rstrip())
        elif said is not None:
            blocks.append(Block(head, said, first))
            head, said, first = [], None, number + 1
        elif line.strip() or head:
            head.append(line.rstrip())
        else:
            first = number + 1
    assert not any(line.strip() for line in head), f"line {first}: a block without a rule"
    return blocks


def write(blocks: list[Block]) -> str:
    return "\n".join("\n".join([*block.head, RULE, *block.said]) + "\n" for block in blocks)


def played(text: str, say: Callable[[Command], None], hear: Callable[[], list[str]]) -> list[Block]:
    """The same dialogue with what was really said."""
    truth = []
    for block in read(text):
        for command in block.commands:
            try:
                say(command)
            except Exception as error:
                raise AssertionError(f"line {block.line}: {command.verb}: {error!r}") from error
        truth.append(block._replace(said=hear()))
    return truth
