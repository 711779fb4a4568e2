"""Tag expressions: which messages of a topic a poll wants.

    >>> paid = TagFilter.parse(pb.FilterExpression(type=pb.TAG, expression="paid || sent"))
    >>> paid.fits("paid"), paid.fits(""), TagFilter.parse(pb.FilterExpression()).fits("anything")
    (True, False, True)

A tag is compared as text, case and all; blanks around it do not count.
"""

from __future__ import annotations

from typing import NamedTuple

from milepost.rocketmq import rocketmq_pb2 as pb
from milepost.rocketmq.codes import Code, Refused

EXPRESSION_LENGTH_MAX = 4096


class TagFilter(NamedTuple):
    tags: frozenset[str]
    """Empty: every message fits."""

    @classmethod
    def parse(cls, expression: pb.FilterExpression) -> TagFilter:
        """`Refused` for an expression that names no tag, or is in another language."""
        text = expression.expression.strip()
        if expression.type == pb.SQL:
            raise Refused(
                Code.ILLEGAL_FILTER_EXPRESSION,
                "SQL92 filters are not supported; filter by tag, or in the consumer",
            )
        if expression.type not in (pb.TAG, pb.FILTER_TYPE_UNSPECIFIED):
            raise Refused(
                Code.ILLEGAL_FILTER_EXPRESSION, f"a filter of type {expression.type} is unknown"
            )
        if len(text) > EXPRESSION_LENGTH_MAX:
            raise Refused(
                Code.ILLEGAL_FILTER_EXPRESSION,
                f"a filter of {len(text)} characters; {EXPRESSION_LENGTH_MAX} are allowed",
            )
        if text in ("", "*"):
            return EVERYTHING
        tags = [tag.strip() for tag in text.split("||")]
        for tag in tags:
            if not tag or "|" in tag:
                raise Refused(
                    Code.ILLEGAL_FILTER_EXPRESSION,
                    f"filter {text[:80]!a}: expected tags between ||, found {tag[:40]!a}",
                )
        return cls(frozenset() if "*" in tags else frozenset(tags))

    def fits(self, tag: str) -> bool:
        return not self.tags or tag in self.tags


EVERYTHING = TagFilter(frozenset())
