"""Decodes names in request paths as upstream does.

Official admin clients encode the name of a topic that way, where a blank is `+`, and put the result into the
path. So a blank comes as `+`, a plus as `%2B`, and a slash that a name holds encoded (`a%2Fb`) as `%252F`.
The name of a subscription they encode twice, as part of the path once more; upstream decodes it twice.

    >>> path_of(b"/admin/v2/persistent/acme/shop/a+b%2B/subscription/my%2Bsub/skip_all")
    '/admin/v2/persistent/acme/shop/a b+/subscription/my sub/skip_all'
    >>> path_of(b"/admin/v2/persistent/acme/shop/a%252Fb/stats")
    '/admin/v2/persistent/acme/shop/a%2Fb/stats'

A slash that comes encoded once is no part of a topic's name. Decoded, it would name another resource: that of
topic `a` for `a%2Fpartitions`. It is refused.
"""

from __future__ import annotations

import re
from urllib.parse import unquote_plus, unquote_to_bytes

# What stands before a topic's name, then the name, then a subscription's name if there is one.
_NAMED = re.compile(
    rb"((?:/admin/v2/(?:(?:non-)?persistent|schemas)|/lookup/v2/topic/[^/]+|/admin/v3/transactions/[^/]+)"
    rb"/[^/]+/[^/]+/)"
    rb"([^/]+)(?:(/subscription/)([^/]+))?(.*)",
    re.DOTALL,
)


class SlashInTopic(ValueError):
    """A topic's name with a slash in it."""


def path_of(raw: bytes) -> str:
    """Decode a path; `UnicodeDecodeError` if it is not UTF-8, `SlashInTopic` as above."""
    if b"%" not in raw and b"+" not in raw:
        return raw.decode()
    named = _NAMED.fullmatch(raw)
    if named is None:
        return unquote_to_bytes(raw).decode()
    before, topic, word, subscription, behind = named.groups(b"")
    if b"%2f" in topic.lower():
        raise SlashInTopic("a topic has no slash in it; encode the % of a name with %2F")
    parts = before, topic.replace(b"+", b"%20"), word, subscription, behind
    texts = [unquote_to_bytes(part).decode() for part in parts]
    texts[3] = unquote_plus(texts[3], errors="strict")
    return "".join(texts)
