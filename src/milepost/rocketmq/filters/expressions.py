"""A filter as a client gives it: tags, or an expression of SQL92.

    >>> paid = wanted_by(pb.FilterExpression(type=pb.TAG, expression="paid || sent"))
    >>> paid.wants({"TAGS": "paid"}), paid.wants({}), wanted_by(pb.FilterExpression()).wants({})
    (True, False, True)
    >>> big = wanted_by(pb.FilterExpression(type=pb.SQL, expression="amount > 100"))
    >>> big.wants({"amount": "101"}), big.wants({"amount": "99"}), big.wants({})
    (True, False, False)

A tag is compared as text, case and all; blanks around it do not count.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import NamedTuple, Protocol

from milepost.rocketmq import rocketmq_pb2 as pb
from milepost.rocketmq.codes import Code, Refused
from milepost.rocketmq.filters import sql
from milepost.rocketmq.message_check import TAGS

EXPRESSION_LENGTH_MAX = sql.LENGTH_MAX


class Filter(Protocol):
    def wants(self, properties: Mapping[str, str]) -> bool:
        """Does a message with these properties fit?"""
        ...


def wanted_by(expression: pb.FilterExpression) -> Filter:
    """`Refused` for an expression that means nothing, or is in another language."""
    if expression.type == pb.SQL:
        return SqlFilter.parse(expression.expression)
    if expression.type not in (pb.TAG, pb.FILTER_TYPE_UNSPECIFIED):
        raise Refused(
            Code.ILLEGAL_FILTER_EXPRESSION, f"a filter of type {expression.type} is unknown"
        )
    return TagFilter.parse(expression.expression)


class TagFilter(NamedTuple):
    tags: frozenset[str]
    """Empty: every message fits."""

    @classmethod
    def parse(cls, expression: str) -> TagFilter:
        """`Refused` for an expression that names no tag."""
        text = expression.strip()
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

    def wants(self, properties: Mapping[str, str]) -> bool:
        return not self.tags or properties.get(TAGS, "") in self.tags


class SqlFilter(NamedTuple):
    expression: sql.Expression

    @classmethod
    def parse(cls, text: str) -> SqlFilter:
        """`Refused` with the place for a text that is no expression."""
        try:
            return _parsed(text)
        except sql.SqlError as error:
            raise Refused(
                Code.ILLEGAL_FILTER_EXPRESSION, f"filter {text[:80]!a}: {error}"
            ) from None

    def wants(self, properties: Mapping[str, str]) -> bool:
        return self.expression(properties) is True


EVERYTHING = TagFilter(frozenset())


@lru_cache(maxsize=256)
def _parsed(text: str) -> SqlFilter:
    """Clients come with the same expression every few seconds."""
    expression = sql.parse(text)
    # A property alone may be the whole condition.
    return SqlFilter(lambda properties: sql.as_truth(expression(properties)))
