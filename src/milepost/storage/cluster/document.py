"""The document of a cluster: its name, how many shards it has, and the secret its brokers share.

It is created once, by the first broker, and never changed: the number of shards decides which of them has a
topic. The registry is created before it, and the shards behind it. Where one of the two is gone although what
comes behind it is there, it was deleted, and none is made in its place. A bucket that holds the data of one
broker is refused here, and one of a cluster is refused there.
"""

from __future__ import annotations

import json
import re
from typing import Final, NamedTuple

from milepost.errors import BucketUnusable, UnknownFormat, WrongBucket
from milepost.storage.bucket.manifest import CLUSTER, SHARDS_MAX
from milepost.storage.bucket.manifest import KEY as MANIFEST
from milepost.storage.bucket.objects import Steps, created, fetched
from milepost.storage.bucket.upkeep.lost import checked_new
from milepost.storage.cluster import registry
from milepost.storage.documents import check_fields, read_document

KEY: Final = CLUSTER
FORMAT: Final = 1
# In bytes.
SECRET_SIZE: Final = 32
_SECRET: Final = re.compile(f"[0-9a-f]{{{2 * SECRET_SIZE}}}")


class ClusterDocument(NamedTuple):
    name: str
    shards: int
    secret: str
    """What brokers know each other by, in hexadecimal digits."""

    def encode(self) -> bytes:
        return json.dumps({"format": FORMAT, **self._asdict()}, indent=1).encode()

    @classmethod
    def decode(cls, data: bytes) -> ClusterDocument:
        try:
            doc = read_document(data)
            version = doc.pop("format")
            if version != FORMAT:
                raise UnknownFormat(
                    f"the bucket's object `{KEY}` has format {version}; this release reads {FORMAT}"
                )
            check_fields(doc, {"name": str, "shards": int})
            if not 1 <= doc["shards"] <= SHARDS_MAX:
                raise ValueError(f"'shards' is {doc['shards']}, and there are 1 to {SHARDS_MAX}")
            if not isinstance(doc["secret"], str) or not _SECRET.fullmatch(doc["secret"]):
                raise ValueError(
                    f"'secret' is not of {2 * SECRET_SIZE} hexadecimal digits"
                )  # it is not for the log
            return cls(**doc)
        except (ValueError, KeyError, TypeError, AttributeError) as failure:
            raise BucketUnusable(
                f"the object `{KEY}` is not of Milepost: {failure}; give the brokers a prefix of "
                "their own"
            ) from failure


def shard_prefix(number: int) -> str:
    """Where the objects of a shard lie.

    >>> shard_prefix(3)
    'shards/3/'
    """
    return f"shards/{number}/"


def found(name: str, shards: int | None) -> Steps[ClusterDocument | None]:
    """The document of the cluster; None if this is the first broker. Writes nothing; `BucketUnusable` for a
    bucket of another kind, another cluster, or another number of shards, `CorruptData` if shards are there
    and the document is gone."""
    there = yield from fetched(KEY)
    if there is not None:
        document = ClusterDocument.decode(there.data)
        check(document, name, shards)
        return document
    if (yield from fetched(MANIFEST)) is not None:
        raise WrongBucket(
            "the bucket holds the data of one broker: start without --shards, or give the "
            "brokers another prefix"
        )
    yield from checked_new(KEY)
    return None


def joined(name: str, shards: int | None, first_shards: int, secret: str) -> Steps[ClusterDocument]:
    """The document of the cluster; made if this is the first broker.

    `shards` is the number that was asked for, None for whatever is there; a new cluster then has
    `first_shards`.
    """
    while True:
        document = yield from found(name, shards)
        if document is not None:
            return document
        yield from created(registry.KEY, registry.EMPTY.encode())
        document = ClusterDocument(name, shards or first_shards, secret)
        if (yield from created(KEY, document.encode())) is not None:
            return document


def check(document: ClusterDocument, name: str, shards: int | None) -> None:
    """`BucketUnusable` for another cluster, or another number of shards."""
    if document.name != name:
        raise WrongBucket(
            f"the bucket belongs to cluster {document.name!r}, and this broker is of {name!r}: "
            "give each cluster a prefix of its own"
        )
    if shards is not None and document.shards != shards:
        raise WrongBucket(
            f"the bucket has {document.shards} shards, not {shards}: start with --shards "
            f"{document.shards}, or --shards auto"
        )
