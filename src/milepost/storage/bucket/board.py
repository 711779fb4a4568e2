"""The board: where each broker says, once a second, that it is there.

A start looks at it so that two brokers that are well do not take the bucket from one another in turns. It is
a courtesy: what keeps the data right is the manifest and the seals, and a broker that is taken for dead and
is not costs a reconnection. Wall clocks are never compared; a broker is there if its object changes.
"""

from __future__ import annotations

import json
import os
from typing import Final, NamedTuple

from milepost.storage.documents import check_fields, read_document

FOLDER: Final = "board/"
# How often a broker says that it is there.
BEAT_S: Final = 1.0
# A broker is taken for dead when its object has not changed for so long.
DEAD_S: Final = 5.0


def board_key(owner: str) -> str:
    return f"{FOLDER}{owner}"


class Sign(NamedTuple):
    """What a broker writes."""

    host: str
    pid: int
    beat: int

    def encode(self) -> bytes:
        return json.dumps(self._asdict()).encode()

    @classmethod
    def decode(cls, data: bytes) -> Sign | None:
        """None for what is not a sign."""
        try:
            doc = read_document(data)
            check_fields(doc, {"host": str, "pid": int, "beat": int})
            return cls(**doc)
        except (ValueError, TypeError, KeyError):
            return None

    def is_surely_dead(self, host: str) -> bool:
        """Was it a process of this very host that is no more?

        A container may have its name and its process numbers again: then this process has the number.
        """
        if self.host != host:
            return False
        if self.pid == os.getpid():
            return True
        try:
            os.kill(self.pid, 0)
        except ProcessLookupError:
            return True
        except (PermissionError, OverflowError):
            return False
        return False
