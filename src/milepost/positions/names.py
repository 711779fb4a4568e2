"""Parses names of tenants, namespaces and topics.

Owns the text: `persistent://tenant/namespace/topic-partition-n`, the short forms clients use, what
a partition's name looks like, and which text is no name. It never knows whether a topic exists, and
no file is ever called by a name. Names are compared as text, case and all.

    >>> name = TopicName.parse("orders-partition-3")
    >>> str(name), name.partition
    ('persistent://public/default/orders-partition-3', 3)
    >>> str(name.base), str(name.namespace)
    ('persistent://public/default/orders', 'public/default')
    >>> TopicName.parse("non-persistent://acme/shop/clicks").partition_name(0).local_name
    'clicks-partition-0'

Stricter than upstream where its leniency lets two names look or act alike: no blanks around a part,
no control or text direction characters, no empty part, no `.` or `..` as a part, no capital letters in
the scheme. The names of Pulsar 1, with a cluster in them, are refused. An encoded slash is part of a
topic's name like any other character: `a%2Fb` is its text everywhere, and nothing decodes it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import lru_cache

from milepost.errors import InvalidTopicName

# Of a full name, scheme and all, in UTF-8.
TOPIC_NAME_SIZE_BYTES_MAX = 4096

# Names kept parsed. Were each as long as allowed, they would take about 50 MB; in life, 3 MB.
PARSED_NAMES_MAX = 4096

PARTITION_MAX = 2**31 - 1

PERSISTENT = "persistent"
NON_PERSISTENT = "non-persistent"


@dataclass(frozen=True, slots=True, order=True)
class NamespaceName:
    """`tenant/namespace`. Made by `parse` or taken from a topic's name."""

    text: str
    tenant: str = field(compare=False)
    local_name: str = field(compare=False)

    @staticmethod
    def parse(text: str) -> NamespaceName:
        """Read `tenant/namespace`; `InvalidTopicName` names the rule that the text breaks."""
        return _parse_namespace(text)

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True, slots=True, order=True)
class TopicName:
    """A topic's full name and its parts. Made by `parse`, which knows every form."""

    # The full form, whatever was parsed. Invariant: parsing it gives this name again.
    text: str

    # PERSISTENT or NON_PERSISTENT.
    domain: str = field(compare=False)

    namespace: NamespaceName = field(compare=False)

    # The part behind the namespace, with the partition's suffix if there is one.
    local_name: str = field(compare=False)

    # −1 if this is not the name of a partition.
    partition: int = field(compare=False)

    @staticmethod
    def parse(text: str) -> TopicName:
        """Read a full or short name; `InvalidTopicName` names the rule that the text breaks.

        `topic` is `persistent://public/default/topic`, and `tenant/namespace/topic` is persistent.
        Parsed names are kept, so that one text is mostly one object.
        """
        return _parse_topic(text)

    @property
    def tenant(self) -> str:
        return self.namespace.tenant

    @property
    def is_persistent(self) -> bool:
        return self.domain == PERSISTENT

    @property
    def base(self) -> TopicName:
        """The topic that this is a partition of; the name itself if it is none."""
        if self.partition < 0:
            return self
        return _parse_topic(self.text[: self.text.rindex(_PARTITION_INFIX)])

    def partition_name(self, partition: int) -> TopicName:
        """The name of one partition of this topic."""
        if self.partition >= 0:
            raise _invalid("topic", self.text, "a partition has no partitions")
        if not 0 <= partition <= PARTITION_MAX:
            raise _invalid("topic", self.text, f"there is no partition {partition}")
        return _parse_topic(f"{self.text}{_PARTITION_INFIX}{partition}")

    def __str__(self) -> str:
        return self.text


_PARTITION_INFIX = "-partition-"

# Only a number as a machine prints it makes a partition: `-partition-01` and `-partition-x` end
# the names of ordinary topics, as upstream has it.
_PARTITION_SUFFIX = re.compile(rf"{_PARTITION_INFIX}(0|[1-9][0-9]{{0,9}})\Z")

# What no log line, terminal or file could show safely: control characters, line and paragraph
# separators, marks that turn the direction of text, halves of surrogate pairs.
_UNSAFE = re.compile("[\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")

_TENANT_OR_NAMESPACE = re.compile(r"[-=:.A-Za-z0-9_]+")


@lru_cache(maxsize=PARSED_NAMES_MAX)
def _parse_topic(text: str) -> TopicName:
    if not isinstance(text, str):  # from a program without types
        raise InvalidTopicName(f"topic name {text!r} is not text")
    scheme, separator, path = text.partition("://")
    if not separator:
        if text.startswith((f"{PERSISTENT}:/", f"{NON_PERSISTENT}:/")):
            raise _invalid("topic", text, f"expected {PERSISTENT}://tenant/namespace/topic")
        scheme, path = PERSISTENT, text if "/" in text else f"public/default/{text}"
    full = f"{scheme}://{path}"
    _check_text("topic", full)
    if scheme not in (PERSISTENT, NON_PERSISTENT):
        raise _invalid("topic", text, f"the scheme is neither {PERSISTENT} nor {NON_PERSISTENT}")
    parts = path.split("/")
    if len(parts) > 3:
        raise _invalid(
            "topic",
            text,
            "more than tenant/namespace/topic; names of Pulsar 1, with a cluster, are not "
            "supported, and a topic has no slash in it",
        )
    if len(parts) < 3:
        raise _invalid("topic", text, "expected tenant/namespace/topic, or a topic alone")
    tenant, namespace, local_name = parts
    _check_parts("topic", text, parts)
    match = _PARTITION_SUFFIX.search(local_name)
    partition = -1 if match is None else int(match[1])
    if partition > PARTITION_MAX:
        partition = -1
    if partition >= 0 and match is not None and match.start() == 0:
        raise _invalid("topic", text, "a partition of a topic without a name")
    owner = _parse_namespace(f"{tenant}/{namespace}")
    return TopicName(full, scheme, owner, local_name, partition)


@lru_cache(maxsize=PARSED_NAMES_MAX)
def _parse_namespace(text: str) -> NamespaceName:
    _check_text("namespace", text)
    parts = text.split("/")
    if len(parts) == 3:
        raise _invalid("namespace", text, "names of Pulsar 1, with a cluster, are not supported")
    if len(parts) != 2:
        raise _invalid("namespace", text, "expected tenant/namespace")
    _check_parts("namespace", text, parts)
    return NamespaceName(text, *parts)


def _check_text(kind: str, text: str) -> None:
    """The rules that hold for the text as a whole."""
    # A character is at least a byte: the first test bounds the work of those behind it.
    if len(text) > TOPIC_NAME_SIZE_BYTES_MAX:
        raise _invalid(kind, text, f"longer than {TOPIC_NAME_SIZE_BYTES_MAX} bytes")
    unsafe = _UNSAFE.search(text)
    if unsafe is not None:
        raise _invalid(kind, text, f"character U+{ord(unsafe[0]):04X} is not allowed")
    if len(text.encode()) > TOPIC_NAME_SIZE_BYTES_MAX:
        raise _invalid(kind, text, f"longer than {TOPIC_NAME_SIZE_BYTES_MAX} bytes")


def _check_parts(kind: str, text: str, parts: list[str]) -> None:
    """The rules for `tenant`, `namespace` and, if there is a third part, the topic."""
    for noun, part in zip(("tenant", "namespace", "topic"), parts, strict=False):
        if not part:
            raise _invalid(kind, text, f"the {noun} is empty")
        if part != part.strip():
            raise _invalid(kind, text, f"blanks around the {noun}")
        if part in (".", ".."):
            raise _invalid(kind, text, f"the {noun} is {part}")
        if noun != "topic" and not _TENANT_OR_NAMESPACE.fullmatch(part):
            raise _invalid(kind, text, f"the {noun} has characters other than A-Z a-z 0-9 _-=:.")


def _invalid(kind: str, text: str, rule: str) -> InvalidTopicName:
    shown = ascii(text if len(text) <= 80 else text[:80] + "…")
    return InvalidTopicName(f"{kind} name {shown}: {rule}")
