"""Finds the topics that match a pattern, now and later.

A pattern is a regular expression for full names (`persistent://public/default/orders-.*`), or for the
names in the default namespace. It is compared with topics, not with their partitions.

    pattern = TopicPattern.parse(re.compile("persistent://public/default/orders-.*"))
    pattern.namespace, pattern.matches("persistent://public/default/orders-eu")
"""

from __future__ import annotations

import re
from typing import NamedTuple

from milepost.client.policies import RegexSubscriptionMode
from milepost.errors import InvalidInput
from milepost.positions import NamespaceName, TopicName

_PREFIX = re.compile(r"(?:(persistent|non-persistent)://)?([\w.=:-]+)/([\w.=:-]+)/(.+)", re.DOTALL)


class TopicPattern(NamedTuple):
    namespace: str
    expression: re.Pattern[str]
    """Of a name without its domain: `public/default/orders-.*`."""
    is_portable: bool = True
    """Whether the expression alone says it all, without flags of Python's."""

    @staticmethod
    def parse(pattern: object) -> TopicPattern:
        """Of a compiled pattern, or of its text; `InvalidInput` if it is neither."""
        text = pattern.pattern if isinstance(pattern, re.Pattern) else pattern
        flags = pattern.flags if isinstance(pattern, re.Pattern) else re.UNICODE.value
        if not isinstance(text, str):
            raise InvalidInput(f"a pattern of topics is text, not {type(text).__name__}")
        found = _PREFIX.fullmatch(text)
        tenant, namespace, rest = ("public", "default", text)
        if found is not None:
            tenant, namespace, rest = found[2], found[3], found[4]
        name = str(NamespaceName.parse(f"{tenant}/{namespace}"))
        try:
            expression = re.compile(f"{re.escape(name)}/(?:{rest})", flags)
            return TopicPattern(name, expression, flags == re.UNICODE)
        except re.error as error:
            raise InvalidInput(f"pattern {text!r}: {error}") from None

    def matches(self, topic: str) -> bool:
        return self.expression.fullmatch(topic.partition("://")[2]) is not None

    def select(self, topics: list[str]) -> list[str]:
        """Topics that match, each once, whatever partitions they have."""
        bases = {str(TopicName.parse(topic).base) for topic in topics}
        return sorted(base for base in bases if self.matches(base))


def partitioned(topics: list[str]) -> set[str]:
    """Which topics of such a list have partitions: those of which partitions are listed. A name that is
    listed itself is a topic without any, so there is no need to ask."""
    names = [TopicName.parse(topic) for topic in topics]
    return {str(name.base) for name in names if name.partition >= 0}


MODES = {
    RegexSubscriptionMode.PersistentOnly: 0,
    RegexSubscriptionMode.NonPersistentOnly: 1,
    RegexSubscriptionMode.AllTopics: 2,
}
"""As CommandGetTopicsOfNamespace.Mode numbers them."""
