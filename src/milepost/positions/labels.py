"""Checks the names of subscriptions, producers and consumers.

Nearly anything goes, as upstream: letters of any script, slashes, dots. Nothing is filed under a label,
but it stands in logs, statistics and answers, so it must be short and must not deceive its reader.

    >>> check_label("subscription", "team/reports")
    >>> check_label("subscription", "a\\x1b[2Jb")
    Traceback (most recent call last):
    milepost.errors.InvalidInput: subscription name 'a\\x1b[2Jb': character U+001B is not allowed
"""

from __future__ import annotations

import re

from milepost.errors import InvalidInput

LABEL_LENGTH_MAX = 1024

# As in topic names: control characters, line and paragraph separators, marks that turn the direction of
# text, halves of surrogate pairs.
_UNSAFE = re.compile("[\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


def check_label(noun: str, label: str) -> None:
    """`InvalidInput`, naming the rule, for a label that cannot be used. An empty one can."""
    if len(label) > LABEL_LENGTH_MAX:
        raise InvalidInput(
            f"{noun} name {label[:40]!a}…: longer than {LABEL_LENGTH_MAX} characters"
        )
    unsafe = _UNSAFE.search(label)
    if unsafe is not None:
        raise InvalidInput(
            f"{noun} name {label[:80]!a}: character U+{ord(unsafe[0]):04X} is not allowed"
        )
