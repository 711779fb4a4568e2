"""The tenants, namespaces, topics and partition counts that exist, in memory.

All of it is kept in memory, so that a look-up never waits; a change is in the catalog before it is here.
A change decides by what the catalog holds in its own transaction. Names are taken, and given up, here first:
so no other request builds on what is being made or deleted.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from itertools import chain
from uuid import uuid4

from milepost.errors import (
    AlreadyExists,
    FewerPartitions,
    InvalidInput,
    InvalidPartitions,
    NotAllowed,
    NotFound,
    ServiceNotReady,
    TooManyRequests,
    TopicNotFound,
)
from milepost.positions.names import PERSISTENT, NamespaceName, TopicName
from milepost.storage.catalog.catalog import Doc, Snapshot, StateRow, TopicRow
from milepost.storage.interface import Catalog, ChangeCatalog
from milepost.storage.ledgers.ledger import LedgerRow

TENANTS, NAMESPACES, PARTITIONED = "tenants", "namespaces", "partitioned"
# In a namespace's document: the worker that is deleting it.
DELETED_BY = "deletedByWorker"
# … and a name of that deletion alone.
DELETION = "deletion"
_SINGULAR = {TENANTS: "tenant", NAMESPACES: "namespace", PARTITIONED: "partitioned topic"}
# What a new data directory holds, as upstream's standalone does.
FIRST_NAMESPACES = ("public/default", "pulsar/system")


class Directory:
    SHARED = (TENANTS, NAMESPACES)
    """The folders that several workers share."""

    def __init__(
        self,
        change: ChangeCatalog,
        registry: ChangeCatalog,
        *,
        topics_max: Callable[[NamespaceName], int],
        partitions_max: int,
        on_topics: Callable[[str, Iterable[str], Iterable[str]], None],
        count_elsewhere: Callable[[NamespaceName], Awaitable[int]],
    ) -> None:
        """`change` runs something in a transaction of the catalog, `registry` in one of the catalog that
        has the tenants and namespaces: of the same, unless several workers share them. `topics_max` says
        how many topics a namespace may have; a maximum of 0 is none. `on_topics` is told of a namespace
        whose topics have changed: names that came, names that went. `count_elsewhere` says how many
        topics of a namespace other workers have."""
        self._change = change
        self._registry = registry
        self._count_elsewhere = count_elsewhere
        self._topics_max = topics_max
        self.partitions_max = partitions_max
        self._rows: dict[str, TopicRow] = {}
        self._partitioned: dict[str, Doc] = {}
        self._tenants: dict[str, Doc] = {}
        self._namespaces: dict[str, Doc] = {}
        self._on_topics = on_topics
        # Folder and name of what is being deleted: it is not taken from the registry again.
        self._going: set[tuple[str, str]] = set()
        # Topics that are on their way to the catalog: they count, or many at once would pass a limit.
        self._being_made: set[str] = set()
        # Partitioned topics whose partitions are being deleted: none of those may come back.
        self._being_deleted: set[str] = set()
        # Partitioned topics that are being given more: a request that deletes one has to know of all.
        self._being_grown: Counter[str] = Counter()
        # For each that is waited for: done when it has been given what it was to be given.
        self._growths: dict[str, asyncio.Future[None]] = {}

    async def load(self) -> None:
        rows, self._partitioned = await self._change(_load_topics)
        self._tenants, self._namespaces = await self._registry(load_namespaces)
        self._rows = {row.name: row for row in rows}

    def follow(self, found: dict[str, dict[str, Doc]]) -> None:
        """Another worker has changed tenants or namespaces: these are all of them, by folder."""
        for folder, known in ((TENANTS, self._tenants), (NAMESPACES, self._namespaces)):
            known.clear()
            for name, doc in found[folder].items():
                if (folder, name) not in self._going:
                    known[name] = doc

    # -- asking ------------------------------------------------------------------------------------

    def check_namespace(self, name: TopicName) -> None:
        doc = self._namespaces.get(str(name.namespace))
        if doc is None or DELETED_BY in doc:
            raise TopicNotFound(f"namespace {name.namespace} of topic {name} does not exist")

    def admins_of(self, tenant: str) -> list[str]:
        """The roles that administer a tenant; none for one that is not there."""
        roles: list[str] = self._tenants.get(tenant, {}).get("adminRoles", [])
        return roles

    def check_partition(self, name: TopicName) -> None:
        """Refuse the name of a whole partitioned topic, and of a partition that it does not have."""
        if name.partition < 0:
            if str(name) in self._partitioned:
                raise NotAllowed(
                    f"{name} is a partitioned topic; name one of its partitions ({name}-partition-0)"
                )
            return
        partitions = self.partitions(name.base)
        if partitions is not None and name.partition >= partitions:
            if self._being_grown[str(name.base)] and str(name) in self._rows:
                return  # a topic of its own, which is to be one of them in a moment
            raise TopicNotFound(
                f"{name.base} has {partitions} partitions, no partition {name.partition}"
            )

    def row(self, name: TopicName) -> TopicRow | None:
        return self._rows.get(str(name))

    def partitions(self, name: TopicName) -> int | None:
        """How many partitions a topic has; None for one that is not partitioned, or not there."""
        doc = self._partitioned.get(str(name))
        return None if doc is None else int(doc["partitions"])

    def partitioned_doc(self, name: TopicName) -> Doc:
        """What is known of a partitioned topic; `TopicNotFound` if it is none."""
        if str(name) not in self._partitioned:
            raise TopicNotFound(f"partitioned topic {name} does not exist")
        return self._partitioned[str(name)]

    def partitioned_topics(self, namespace: str, domain: str = PERSISTENT) -> list[str]:
        prefix = f"{domain}://{namespace}/"
        return sorted(name for name in self._partitioned if name.startswith(prefix))

    def exists(self, name: TopicName) -> bool:
        """A topic, partitioned or not, or a partition, even if no client has used it yet."""
        if str(name) in self._rows or str(name) in self._partitioned:
            return True
        partitions = self.partitions(name.base) or 0
        return 0 <= name.partition < partitions

    def name_of(self, topic_id: int) -> str | None:
        """Of the topic with this number."""
        return next((name for name, row in self._rows.items() if row.topic_id == topic_id), None)

    def all_topics(self) -> list[str]:
        """Names of the topics that are there, in every namespace."""
        return sorted(self._rows)

    def whole_topics(self, namespace: str = "") -> list[str]:
        """Names of topics, of one namespace or of all: a partitioned one once, without its partitions."""
        prefix = f"persistent://{namespace}/" if namespace else "persistent://"
        partitioned = self._partitioned
        names = [name for name in partitioned if name.startswith(prefix)]
        names += [
            name
            for name in self._rows
            if name.startswith(prefix) and name.rpartition("-partition-")[0] not in partitioned
        ]
        return sorted(names)

    def topics(self, namespace: str) -> list[str]:
        """Names of a namespace's topics, partitions each by its own name, as upstream lists them."""
        prefix = f"persistent://{namespace}/"
        names = {name for name in self._rows if name.startswith(prefix)}
        for name, doc in self._partitioned.items():
            if name.startswith(prefix):
                names.update(_partitions_of(name, 0, doc["partitions"]))
        return sorted(names)

    def tenants(self) -> list[str]:
        return sorted(self._tenants)

    def tenant(self, name: str) -> Doc:
        if name not in self._tenants:
            raise NotFound(f"tenant {name} does not exist")
        return self._tenants[name]

    def namespaces(self, tenant: str) -> list[str]:
        self.tenant(tenant)
        return sorted(name for name in self._namespaces if name.startswith(f"{tenant}/"))

    def namespace(self, name: NamespaceName) -> Doc:
        if str(name) not in self._namespaces:
            raise NotFound(f"namespace {name} does not exist")
        return self._namespaces[str(name)]

    # -- changing ----------------------------------------------------------------------------------

    async def create_tenant(self, name: str, doc: Doc) -> None:
        await self._create(TENANTS, self._tenants, name, doc)

    async def set_tenant(self, name: str, doc: Doc) -> None:
        self.tenant(name)
        await self._edit(TENANTS, self._tenants, name, lambda before: {**before, **doc})

    async def delete_tenant(self, name: str) -> None:
        if self.namespaces(name):
            raise AlreadyExists(f"tenant {name} still has namespaces")

        def check(catalog: Catalog) -> None:
            if catalog.docs(NAMESPACES, f"{name}/"):  # another worker has made one meanwhile
                raise AlreadyExists(f"tenant {name} still has namespaces")

        await self._delete(TENANTS, self._tenants, name, check)

    async def create_namespace(
        self,
        name: NamespaceName,
        doc: Doc,
        beside: Callable[[Catalog], None] = lambda catalog: None,
        then: Callable[[], None] = lambda: None,
    ) -> None:
        """`beside` changes the catalog with it; `then` is called when that is durable, before another change
        is."""
        self.tenant(name.tenant)

        def check(catalog: Catalog) -> None:
            if catalog.doc(TENANTS, name.tenant) is None:
                raise NotFound(f"tenant {name.tenant} was deleted meanwhile")

        await self._create(NAMESPACES, self._namespaces, str(name), doc, check, beside, then)

    async def change_properties(
        self, name: NamespaceName, change: Callable[[dict[str, str]], dict[str, str]]
    ) -> None:
        """Give a namespace other properties, made from those it has."""
        await self.change_namespace(
            name, lambda doc: {**doc, "properties": change(doc.get("properties", {}))}
        )

    async def change_namespace(self, name: NamespaceName, change: Callable[[Doc], Doc]) -> None:
        """Change what is known of a namespace beside its name and policies."""
        self.namespace(name)
        await self._edit(NAMESPACES, self._namespaces, str(name), change)

    async def delete_namespace(
        self,
        name: NamespaceName,
        deletion: str | None = None,
        beside: Callable[[Catalog], None] = lambda catalog: None,
        then: Callable[[], None] = lambda: None,
    ) -> None:
        """`deletion`: what `mark_deletion` has marked it with. If it is not any more, topics may have been
        made since. `beside` changes the catalog with it; `then` is called when that is durable, before
        another change is."""
        self.namespace(name)
        if self.uses(name):
            raise AlreadyExists(f"namespace {name} still has topics")

        def check(catalog: Catalog) -> None:
            doc = catalog.doc(NAMESPACES, str(name)) or {}
            is_marked = DELETED_BY in doc and doc.get(DELETION) == deletion
            if deletion is not None and not is_marked:
                raise ServiceNotReady(f"namespace {name} is in use again: delete it again")
            beside(catalog)

        await self._delete(NAMESPACES, self._namespaces, str(name), check, then)

    def uses(self, name: NamespaceName) -> bool:
        """Is there a topic in the namespace, or one on its way?"""
        prefixes = (f"persistent://{name}/", f"non-persistent://{name}/")
        names = chain(self._rows, self._being_made, self._partitioned)
        return any(topic.startswith(prefixes) for topic in names)

    async def mark_deletion(self, name: NamespaceName, worker: int) -> str:
        """Let no topic be made in a namespace any more: a worker is about to delete it. Returns what tells
        this deletion from others: the shard's next owner has the number of the worker too."""
        deletion = uuid4().hex

        def mark(doc: Doc) -> Doc:
            if DELETED_BY in doc:
                raise ServiceNotReady(f"namespace {name} is being deleted")
            return {**doc, DELETED_BY: worker, DELETION: deletion}

        await self.change_namespace(name, mark)
        return deletion

    async def forget_deletions(self, worker: int, deletion: str | None = None) -> None:
        """Take back what a worker has marked, for one deletion or for all: nothing was deleted."""

        def is_marked(doc: Doc) -> bool:
            return doc.get(DELETED_BY) == worker and deletion in (None, doc.get(DELETION))

        def unmarked(doc: Doc) -> Doc:
            if not is_marked(doc):  # another worker has marked it meanwhile
                return doc
            return {key: value for key, value in doc.items() if key not in (DELETED_BY, DELETION)}

        for one in [one for one, doc in self._namespaces.items() if is_marked(doc)]:
            with suppress(NotFound):  # deleted meanwhile, by a process that had the shard before
                await self.change_namespace(NamespaceName.parse(one), unmarked)

    def _of(self, folder: str) -> ChangeCatalog:
        """What changes a folder."""
        return self._registry if folder in self.SHARED else self._change

    async def _create(
        self,
        folder: str,
        known: dict[str, Doc],
        name: str,
        doc: Doc,
        check: Callable[[Catalog], None] = lambda catalog: None,
        beside: Callable[[Catalog], None] = lambda catalog: None,
        then: Callable[[], None] = lambda: None,
    ) -> None:
        """`check` is asked in the transaction: another worker may have changed something meanwhile. `beside`
        and `then` are as of `create_namespace`."""
        if name in known:
            raise AlreadyExists(f"{_SINGULAR[folder]} {name} exists")
        known[name] = doc

        def made(_: None) -> None:
            known[name] = doc  # a change of the one before it may have been told meanwhile
            then()

        def undo() -> None:
            # Another worker may have made it, and it is known here by now: that one stays.
            if known.get(name) is doc:
                del known[name]

        def store(catalog: Catalog) -> None:
            check(catalog)
            if catalog.doc(folder, name) is not None:
                raise AlreadyExists(f"{_SINGULAR[folder]} {name} exists")
            catalog.put_doc(folder, name, doc)
            beside(catalog)

        await self._of(folder)(store, made, undo)

    async def _edit(
        self, folder: str, known: dict[str, Doc], name: str, change: Callable[[Doc], Doc]
    ) -> None:
        """Change a document, made from what the catalog has then."""

        def store(catalog: Catalog) -> Doc:
            found = catalog.doc(folder, name)
            if found is None:
                missing = TopicNotFound if folder == PARTITIONED else NotFound
                raise missing(f"{_SINGULAR[folder]} {name} was deleted meanwhile")
            catalog.put_doc(folder, name, doc := change(found))
            return doc

        def changed(doc: Doc) -> None:
            if name in known:  # else it is being deleted
                known[name] = doc

        await self._of(folder)(store, changed)

    async def _delete(
        self,
        folder: str,
        known: dict[str, Doc],
        name: str,
        check: Callable[[Catalog], None] = lambda catalog: None,
        then: Callable[[], None] = lambda: None,
    ) -> None:
        """Gone before it is durable, so that no other request builds on it in the meantime."""
        doc = known.pop(name)
        self._going.add((folder, name))

        def undo() -> None:
            self._going.discard((folder, name))
            known.setdefault(name, doc)

        def store(catalog: Catalog) -> None:
            check(catalog)
            catalog.delete_doc(folder, name)

        def gone(_: None) -> None:
            self._going.discard((folder, name))
            then()

        await self._of(folder)(store, gone, undo)

    async def create_topic(self, name: TopicName, doc: Doc | None = None) -> TopicRow:
        limit = self._topics_max(name.namespace)
        if limit:
            elsewhere = await self._count_elsewhere(name.namespace)
            self.check_namespace(name)  # it may have been deleted meanwhile
            if self.count(str(name.namespace)) + elsewhere >= limit:
                raise TooManyRequests(f"namespace {name.namespace} has {limit} topics already")
        self._check_not_deleted(name.base)  # behind the wait: from here on nothing suspends
        self._being_made.add(str(name))

        def made(row: TopicRow) -> None:
            self._being_made.discard(str(name))
            self._rows[str(name)] = row
            self._on_topics(str(name.namespace), (str(name),), ())

        def undo() -> None:
            self._being_made.discard(str(name))

        return await self._change(
            lambda catalog: catalog.create_topic(str(name), doc or {}), made, undo
        )

    def count(self, namespace: str) -> int:
        """How many topics a namespace has here, those that are on their way included."""
        prefix = f"persistent://{namespace}/"
        return sum(name.startswith(prefix) for name in chain(self._rows, self._being_made))

    def forget_topic(self, name: TopicName) -> None:
        """The catalog has forgotten it."""
        self._rows.pop(str(name), None)
        if not self.exists(name):
            self._on_topics(str(name.namespace), (), (str(name),))

    async def create_partitioned(
        self, name: TopicName, partitions: int, properties: dict[str, str] | None = None
    ) -> None:
        self.check_namespace(name)
        self.check_count(name, partitions)
        if name.partition >= 0:
            raise InvalidInput(f"{name} is a partition itself")
        if str(name) in self._rows or str(name) in self._being_made:
            raise AlreadyExists(f"topic {name} exists")
        doc: Doc = {"partitions": partitions}
        if properties:
            doc["properties"] = properties
        await self._create(PARTITIONED, self._partitioned, str(name), doc)
        self._tell(name, _partitions_of(name, 0, partitions), ())

    async def grow_partitioned(
        self,
        name: TopicName,
        partitions: int,
        furnish: Callable[[Catalog, int], list[TopicRow]] = lambda catalog, before: [],
    ) -> None:
        """More partitions; those that are there stay as they are. `furnish` makes topics of new ones in
        the same transaction; it is told how many there were before."""
        self.check_namespace(name)
        if str(name) not in self._partitioned:
            raise AlreadyExists(f"topic {name} is not partitioned")
        self._check_not_deleted(name)
        self.check_count(name, partitions)
        key = str(name)

        def store(catalog: Catalog) -> tuple[Doc, int, list[TopicRow]]:
            doc = catalog.doc(PARTITIONED, key)
            if doc is None:
                raise TopicNotFound(f"partitioned topic {name} was deleted meanwhile")
            before = int(doc["partitions"])
            if partitions < before:
                raise FewerPartitions(
                    f"{partitions} partitions for {name}, which has {before} and can only get more"
                )
            doc = {**doc, "partitions": partitions}
            catalog.put_doc(PARTITIONED, key, doc)
            return doc, before, furnish(catalog, before)

        def grown(outcome: tuple[Doc, int, list[TopicRow]]) -> None:
            self._grown(name)
            doc, before, rows = outcome
            self._partitioned[key] = doc
            self._rows.update((row.name, row) for row in rows)
            self._tell(name, _partitions_of(name, before, partitions), ())

        self._being_grown[key] += 1
        await self._change(store, grown, partial(self._grown, name))

    @contextmanager
    def growing(self, name: TopicName) -> Iterator[None]:
        """Inside, a partitioned topic is not deleted, and topics of their own that have the names of new
        partitions can be opened."""
        self._check_not_deleted(name)
        self._being_grown[str(name)] += 1
        try:
            yield
        finally:
            self._grown(name)

    def _grown(self, name: TopicName) -> None:
        self._being_grown[str(name)] -= 1
        self._being_grown += Counter()  # drops counts of zero
        if not self._being_grown[str(name)] and (growth := self._growths.pop(str(name), None)):
            growth.set_result(None)

    def is_being_grown(self, name: TopicName) -> bool:
        return self._being_grown[str(name)] > 0

    async def grown(self, name: TopicName) -> None:
        """Return when no request is giving a topic more partitions: a change of all of them would leave the
        new ones out, which are made by what the others have now."""
        while self.is_being_grown(name):
            growth = self._growths.get(str(name))
            if growth is None:
                growth = self._growths[str(name)] = asyncio.get_running_loop().create_future()
            await asyncio.shield(growth)

    async def change_partitioned_doc(self, name: TopicName, change: Callable[[Doc], Doc]) -> None:
        """Change what is known of a partitioned topic beside its name."""
        await self._edit(PARTITIONED, self._partitioned, str(name), change)

    @contextmanager
    def deleting(self, name: TopicName) -> Iterator[None]:
        """Inside, a partitioned topic gets no more partitions, and none of them is made again."""
        self._check_not_deleted(name)
        if self._being_grown[str(name)]:
            raise ServiceNotReady(f"{name} is being given more partitions")
        self._being_deleted.add(str(name))
        try:
            yield
        finally:
            self._being_deleted.discard(str(name))

    def _check_not_deleted(self, name: TopicName) -> None:
        if str(name) in self._being_deleted:
            raise ServiceNotReady(f"{name} is being deleted")

    @staticmethod
    def delete_partitioned(catalog: Catalog, name: TopicName) -> None:
        """In the change that deletes its partitions, which are topics of their own."""
        catalog.delete_doc(PARTITIONED, str(name))

    def forget_partitioned(self, name: TopicName) -> None:
        """The catalog has forgotten it and its partitions."""
        gone = _partitions_of(name, 0, self.partitioned_doc(name)["partitions"])
        del self._partitioned[str(name)]
        for partition in gone:
            self._rows.pop(partition, None)
        self._tell(name, (), gone)

    def _tell(self, name: TopicName, came: Iterable[str], gone: Iterable[str]) -> None:
        """Lists that clients watch have persistent topics only."""
        if name.is_persistent:
            self._on_topics(str(name.namespace), came, gone)

    def check_count(self, name: TopicName, partitions: int) -> None:
        limit = self.partitions_max
        if partitions <= 0 or (limit and partitions > limit):
            raise InvalidPartitions(f"{partitions} partitions for {name}; allowed are 1 to {limit}")

    async def change_docs(
        self, rows: Sequence[TopicRow], change: Callable[[Doc], Doc]
    ) -> list[TopicRow]:
        """Change what is known of topics beside their names, of all or of none; the topics as
        they are then."""

        def store(catalog: Catalog) -> list[TopicRow]:
            # Read there and not here: another change may be on its way.
            stored = []
            for row in rows:
                found = catalog.topic_by_id(row.topic_id)
                if found is None:
                    raise TopicNotFound(f"topic {row.name} was deleted meanwhile")
                catalog.set_topic(row.topic_id, doc := change(found.doc))
                stored.append(found._replace(doc=doc))
            return stored

        def changed(stored: list[TopicRow]) -> None:
            for found in stored:
                # Unless it was deleted meanwhile, and perhaps made again.
                if (known := self._rows.get(found.name)) and known.topic_id == found.topic_id:
                    self._rows[found.name] = found

        return await self._change(store, changed) if rows else []


# Ledgers, and states as they were stored.
StoredTopic = tuple[list[LedgerRow], list[tuple[StateRow, Snapshot]]]


def fetch_topic(catalog: Catalog, topic_id: int) -> StoredTopic:
    """What has to be known to open a topic: its ledgers, and its states as they were stored."""
    states = [(state, catalog.snapshot(state.state_id)) for state in catalog.states(topic_id)]
    return catalog.ledgers(topic_id), states


def _load_topics(catalog: Catalog) -> tuple[list[TopicRow], dict[str, Doc]]:
    return catalog.topics(), catalog.docs(PARTITIONED)


def load_namespaces(catalog: Catalog) -> tuple[dict[str, Doc], dict[str, Doc]]:
    """The tenants and namespaces; the first ones are made if they are not there."""
    for name in FIRST_NAMESPACES:
        if catalog.doc(NAMESPACES, name) is None:
            catalog.put_doc(TENANTS, name.split("/")[0], {})
            catalog.put_doc(NAMESPACES, name, {})
    return catalog.docs(TENANTS), catalog.docs(NAMESPACES)


def check_stored(catalog: Catalog, namespace: str) -> None:
    """`NotFound` if the catalog has no such namespace: another worker may have deleted it meanwhile, and what
    is set for it would be the next one's of its name."""
    if catalog.doc(NAMESPACES, namespace) is None:
        raise NotFound(f"namespace {namespace} does not exist")


def _partitions_of(name: TopicName | str, first: int, end: int) -> list[str]:
    return [f"{name}-partition-{number}" for number in range(first, end)]
