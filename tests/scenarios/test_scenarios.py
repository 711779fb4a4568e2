"""Every dialogue of this folder, played: what the broker says must be what is written.

MILEPOST_REWRITE=1 pytest tests/scenarios       writes down what it says now, to be read in the diff
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from scenarios.dialogue import Block, Command, played, read, write
from scenarios.play import Play

FOLDER = Path(__file__).parent
SCENARIOS = sorted(FOLDER.glob("*.txt"))


@pytest.mark.parametrize("path", SCENARIOS, ids=lambda path: path.stem)
def test_the_dialogue_is_as_written(path: Path) -> None:
    text = path.read_text()
    play = Play()
    try:
        truth = write(played(text, play.say, play.hear))
    finally:
        play.close()
    if os.environ.get("MILEPOST_REWRITE"):
        path.write_text(truth)
    else:
        assert truth.splitlines() == text.splitlines()


def test_there_are_dialogues() -> None:
    assert len(SCENARIOS) >= 10


# -- the text itself -----------------------------------------------------------------------------------

TEXT = """\
# A comment.
one a=1 ; two 'x y'    # another
three
----
said
more

# And the next.
four
----
"""


def test_a_dialogue_is_read_and_written() -> None:
    blocks = read(TEXT)
    assert blocks == [
        Block(TEXT.splitlines()[:3], ["said", "more"], 1),
        Block(["# And the next.", "four"], [], 8),
    ]
    assert blocks[0].commands == [
        Command("one", [], {"a": "1"}),
        Command("two", ["x y"], {}),
        Command("three", [], {}),
    ]
    assert write(blocks) == TEXT


def test_the_truth_takes_the_place_of_what_was_written() -> None:
    heard: list[str] = []
    truth = played(TEXT, lambda command: heard.append(command.verb), lambda: [*heard])
    assert [block.said for block in truth] == [
        ["one", "two", "three"],
        ["one", "two", "three", "four"],
    ]


@pytest.mark.parametrize("text", ["one\n----\n----\n", "one\n", "one\n----\n\ntwo\n"])
def test_a_dialogue_without_its_rules_is_refused(text: str) -> None:
    with pytest.raises(AssertionError, match="rule"):
        read(text)


def test_a_command_that_cannot_be_is_named_with_its_line() -> None:
    play = Play()
    try:
        with pytest.raises(AssertionError, match="line 3: dance"):
            played("\n\ndance\n----\n", play.say, play.hear)
    finally:
        play.close()
