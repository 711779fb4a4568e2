"""`TxnId`: which transaction.

>>> TxnId(0, 7), str(TxnId(0, 7))
(TxnId(most=0, least=7), '(0,7)')
"""

from __future__ import annotations

import re
from typing import NamedTuple

from milepost.errors import InvalidInput

_TEXT = re.compile(r"\(?([0-9]{1,19})[,:]([0-9]{1,19})\)?", re.ASCII)


class TxnId(NamedTuple):
    """Upstream's two numbers, both signed. The first transaction of all is (0, 0)."""

    most: int
    """The number of the coordinator that opened it."""
    least: int
    """How many the coordinator had opened before it."""

    def __str__(self) -> str:
        return f"({self.most},{self.least})"

    @classmethod
    def parse(cls, text: str) -> TxnId:
        """From `(most,least)`, as upstream prints it, or `most:least`."""
        found = _TEXT.fullmatch(text.replace(" ", ""))
        if found is None or max(int(part) for part in found.groups()) >= 2**63:
            raise InvalidInput(f"{text[:80]!r} is no transaction id; one is (0,17) or 0:17")
        return cls(int(found[1]), int(found[2]))
