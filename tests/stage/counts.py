"""How much of a campaign a run does: a little by itself, all of it in `make campaign`."""

from __future__ import annotations

import os

LONG = os.environ.get("MILEPOST_CAMPAIGN") == "long"


def campaign_count(variable: str, usual: int, at_length: int) -> int:
    """The variable of the environment says it; else the usual, or all with `MILEPOST_CAMPAIGN=long`."""
    told = os.environ.get(variable)
    if told:
        return int(told)
    return at_length if LONG else usual


def examples(count: int) -> int:
    """How many examples of a property a run tries: a third of the count by itself, and three times the
    count in `make campaign`. `MILEPOST_EXAMPLES` is the share in per cent."""
    per_cent = campaign_count("MILEPOST_EXAMPLES", 33, 300)
    return max(5, count * per_cent // 100)
