"""The registry of a cluster: one object for what all its shards share.

Tenants, namespaces, their policies and grants, and settings that were changed at run time, as documents in
folders. A change reads the object, decides by it, and replaces it only if it is still the one that was read;
if another process was faster, it decides again. Every change has a nonce, and the object names the latest of
them: a change whose answer was lost finds itself there, even if others have built on it. Beside that it is
what the registry of workers on a disk is (`storage/registry.py`).
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Final, Generic, NamedTuple, TypeVar, cast
from uuid import uuid4

from milepost.errors import BucketUnusable, UnknownFormat
from milepost.storage.bucket.objects import Objects, Steps, fetched, perform, replaced
from milepost.storage.catalog.catalog import Catalog, Doc
from milepost.storage.documents import check_fields, read_document

logger = logging.getLogger(__name__)

KEY: Final = "registry"
FORMAT: Final = 1
# Changes that the object names: many more than can be made while one of them waits for its answer.
RECENT_MAX: Final = 256
T = TypeVar("T")

Folders = dict[str, dict[str, str]]
"""Folder → name → document, as JSON."""


class Documents:
    """What changes of the registry use of a catalog: documents in folders. In memory."""

    def __init__(self, folders: Folders) -> None:
        self.folders = folders
        self.has_changed = False

    def put_doc(self, folder: str, name: str, doc: Doc) -> None:
        text = json.dumps(doc)
        docs = self.folders.setdefault(folder, {})
        if docs.get(name) != text:
            docs[name] = text
            self.has_changed = True

    def doc(self, folder: str, name: str) -> Doc | None:
        text = self.folders.get(folder, {}).get(name)
        return None if text is None else cast("Doc", json.loads(text))

    def docs(self, folder: str, prefix: str = "") -> dict[str, Doc]:
        docs = self.folders.get(folder, {})
        return {name: json.loads(docs[name]) for name in sorted(docs) if name.startswith(prefix)}

    def delete_doc(self, folder: str, name: str) -> bool:
        is_there = self.folders.get(folder, {}).pop(name, None) is not None
        self.has_changed = self.has_changed or is_there
        return is_there


class Content(NamedTuple):
    folders: Folders
    recent: list[str]
    """The nonces of the latest changes, oldest first."""

    def encode(self) -> bytes:
        return json.dumps({"format": FORMAT, **self._asdict()}).encode()

    @classmethod
    def decode(cls, data: bytes) -> Content:
        try:
            doc = read_document(data)
            version = doc["format"]
            if version != FORMAT:
                raise UnknownFormat(
                    f"the bucket's object `{KEY}` has format {version}; this release reads {FORMAT}"
                )
            check_fields(doc, {"folders": dict, "recent": list})
            folders, recent = doc["folders"], doc["recent"]
            check_fields(folders, dict.fromkeys(folders, dict))
            for docs in folders.values():
                check_fields(docs, dict.fromkeys(docs, str))
        except (ValueError, KeyError, TypeError) as failure:
            raise BucketUnusable(f"the object `{KEY}` is not of Milepost: {failure}") from failure
        return cls(folders, recent)


EMPTY: Final = Content({}, [])
"""As the first broker of a cluster makes it."""


class Outcome(NamedTuple, Generic[T]):
    result: T
    seen: str
    """The tag of what the change decided by; empty if there was nothing."""
    tag: str
    """Of what it saw or made; empty if others have changed more."""
    is_new: bool


def missing() -> BucketUnusable:
    """Nothing is made in the place of a registry that is gone: policies and grants would be gone with it."""
    return BucketUnusable(
        f"the object `{KEY}` is missing: a rule or a person has deleted it; restore it from the store's "
        "versions"
    )


def changed(change: Callable[[Catalog], T], fresh_nonce: Callable[[], str]) -> Steps[Outcome[T]]:
    """Let a change decide by what the bucket has, until what it decided is there."""
    found = yield from fetched(KEY)
    while True:
        if found is None:
            raise missing()
        before = Content.decode(found.data)
        documents = Documents(before.folders)
        result = change(cast("Catalog", documents))
        seen = found.tag
        if not documents.has_changed:
            return Outcome(result, seen, seen, False)
        nonce = fresh_nonce()
        recent = [*before.recent, nonce][-RECENT_MAX:]
        data = Content(documents.folders, recent).encode()
        tag = yield from replaced(KEY, data, found.tag)
        if tag is not None:
            return Outcome(result, seen, tag, True)
        found = yield from fetched(KEY)
        if found is not None and nonce in Content.decode(found.data).recent:
            return Outcome(result, seen, "", True)  # it was answered late; others came behind it
        # Another process was faster: decide by what it left.


class BucketRegistry:
    """Made and used on the loop (`ChangeCatalog`)."""

    def __init__(self, objects: Objects, on_change: Callable[[], Awaitable[None]]) -> None:
        """`on_change` is awaited when a change of this process is in the bucket."""
        self._objects = objects
        self._on_change = on_change
        # One at a time: what is read and changed here is used in the order in which it was.
        self._turn = asyncio.Lock()
        # The tag of what memory has all of; empty if that is in doubt.
        self._seen = ""
        # Was the object gone at the last look? It is said once.
        self._is_missing = False
        self._tasks: set[asyncio.Task[Any]] = set()

    async def __call__(
        self,
        change: Callable[[Catalog], T],
        then: Callable[[T], None] | None = None,
        undo: Callable[[], None] | None = None,
    ) -> T:
        """Run `change` on what the bucket has; durable, and known to the others, when this returns. It is
        run again if another process was faster. It goes on if the caller gives up."""
        return await self._started(self._run(change, then, undo))

    async def read(self, look: Callable[[Catalog], T], then: Callable[[T], None]) -> T:
        """Run `look`, which changes nothing; behind `then` memory has all that the bucket has."""
        return await self._started(self._run(look, then, None, is_whole=True))

    async def _started(self, work: Coroutine[Any, Any, T]) -> T:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return await asyncio.shield(task)

    async def _run(
        self,
        change: Callable[[Catalog], T],
        then: Callable[[T], None] | None,
        undo: Callable[[], None] | None,
        *,
        is_whole: bool = False,
    ) -> T:
        async with self._turn:
            try:
                steps = changed(change, lambda: uuid4().hex)
                outcome = await perform(self._objects, steps)
            except BaseException:
                if undo is not None:
                    undo()
                self._seen = ""  # memory may lack what another process has made meanwhile
                raise
            # What others have changed before it memory may lack, though this change was built on it: they
            # may have been killed before they told of it, or be out of reach.
            self._seen = outcome.tag if is_whole or outcome.seen == self._seen else ""
            if then is not None:
                then(outcome.result)
        if outcome.is_new:
            await self._on_change()
        return outcome.result

    async def has_changed(self) -> bool:
        """Has another process changed something since this one last read it, or is memory in doubt?"""
        if self._turn.locked():
            return False  # what is under way reads it
        seen = self._seen
        found = await perform(self._objects, fetched(KEY))
        if found is None and not self._is_missing:
            logger.error("%s; until then nothing that all shards share can be changed", missing())
        self._is_missing = found is None
        return found is not None and seen == self._seen and found.tag != seen

    def close(self) -> None:
        """Callers of what is under way are gone; it is in the bucket, or it is not."""
        for task in self._tasks:
            task.cancel()
