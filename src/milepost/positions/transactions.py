"""`TxnId`: which transaction.

>>> TxnId(0, 7), str(TxnId(0, 7))
(TxnId(most=0, least=7), '(0,7)')
"""

from __future__ import annotations

from typing import NamedTuple


class TxnId(NamedTuple):
    """Upstream's two numbers, both signed. The first transaction of all is (0, 0)."""

    most: int
    """The number of the coordinator that opened it."""
    least: int
    """How many the coordinator had opened before it."""

    def __str__(self) -> str:
        return f"({self.most},{self.least})"
