"""The manifest: who owns the journal in a bucket, and where a start begins.

There is one, and it is only ever replaced under the condition that it is still the one that was read. An
owner with a later *epoch* therefore stops the one before it from moving the floor, and with that from
deleting anything. The nonce makes every manifest different: some stores make the tag from the content
alone.
"""

from __future__ import annotations

import json
from typing import NamedTuple

from milepost.errors import BucketUnusable, UnknownFormat
from milepost.storage.documents import check_fields, read_document

KEY = "manifest"
# The object that a bucket of several brokers has, and a bucket of one has not.
CLUSTER = "cluster"
# Into so many shards a bucket is divided at most: each needs a process.
SHARDS_MAX = 64
FORMAT = 1
_KINDS = {"cluster": str, "epoch": int, "owner": str, "floor": list, "image": str, "nonce": str}


class Place(NamedTuple):
    """A place in the journal: group `number` of an epoch. Places are ordered."""

    epoch: int
    number: int


class Manifest(NamedTuple):
    cluster: str
    """The name of the cluster that the bucket belongs to."""
    epoch: int
    """Grows by one with each owner."""
    owner: str
    floor: Place
    """The oldest group that the image does not hold."""
    image: str
    """The key of the image; empty if there is none yet."""
    nonce: str

    def encode(self) -> bytes:
        return json.dumps({"format": FORMAT, **self._asdict()}, indent=1).encode()

    @classmethod
    def decode(cls, data: bytes) -> Manifest:
        try:
            doc = read_document(data)
            version = doc.pop("format")
            if version != FORMAT:
                raise UnknownFormat(
                    f"the bucket's manifest has format {version}; this release reads {FORMAT}"
                )
            check_fields(doc, _KINDS)
            floor = Place(*doc["floor"])
            check_fields(floor._asdict(), {"epoch": int, "number": int})
            if doc["epoch"] < 1:
                raise ValueError(f"'epoch' is {doc['epoch']}, and the first one is 1")
            if not (1 <= floor.epoch <= doc["epoch"] and floor.number >= 0):
                raise ValueError(f"'floor' is {[*floor]}, and the epoch is {doc['epoch']}")
            return cls(**{**doc, "floor": floor})
        except (ValueError, KeyError, TypeError, AttributeError) as failure:
            raise BucketUnusable(
                f"the object `{KEY}` is not a manifest of Milepost: {failure}; "
                "give the broker a prefix of its own"
            ) from failure

    def claimed(self, owner: str, nonce: str) -> Manifest:
        """The manifest of the next owner."""
        return self._replace(epoch=self.epoch + 1, owner=owner, nonce=nonce)


def first_manifest(cluster: str, owner: str, nonce: str) -> Manifest:
    """The manifest of a bucket that has none."""
    return Manifest(cluster, 1, owner, Place(1, 0), "", nonce)
