"""One consumer of a subscription, and since when what it receives was certainly sent.

A message that an application takes may have been on its way for long. What is known of that depends on
the client: a *strict* one shows nothing that was sent before the events above the line; one that is a bare
*connection* shows nothing that was sent before it joined, or before an answer that it had; one with a
*queue* of its own shows nothing that was sent before it joined, or before its own seek was answered.
"""

from __future__ import annotations


class Session:
    def __init__(self, number: int) -> None:
        self.number = number
        self.mode = "strict"
        self.alone = False
        """It is the only consumer: the first message behind a seek is its."""
        self.ordered = False
        """It is shown every message in order, until messages are released."""
        self.is_joined = False
        self.since = 0
        self.awaits_first = False
        self.last_index = -1
        self.last_line = 0

    def join(self, line: int, mode: str, *, alone: bool, ordered: bool) -> None:
        self.mode, self.alone, self.ordered = mode, alone, ordered
        self.is_joined = True
        self.begin_again(line)

    def begin_again(self, line: int) -> None:
        """What it receives from here on was sent behind the line."""
        self.since = line
        self.awaits_first = self.alone
        self.last_index = -1

    def sent_after(self, line: int, life_line: int) -> int:
        """A message that it received in the line was sent behind this one."""
        if self.mode == "strict":
            return line
        return max(self.since, life_line)
