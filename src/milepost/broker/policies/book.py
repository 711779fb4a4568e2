"""The policies that namespaces and topics have set, in memory and in the catalog.

A change is checked, then durable, then told (`on_change`), in this order, and answered when every open topic
obeys it; what is refused changes nothing.
A partitioned topic's policies are its partitions' too, so topics are known here by the name of the whole.

    await book.set(Level.TOPIC, "persistent://public/default/orders", policy, 60)
    book.of(TopicName.parse("persistent://public/default/orders-partition-3")).message_ttl_s == 60
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Final

from milepost.broker.policies.effective import (
    AutoTopics,
    TopicPolicies,
    auto_topics,
    effective,
    max_topics,
)
from milepost.broker.policies.policy import Level, Policy, Values, key_of
from milepost.broker.policies.shapes import Json
from milepost.broker.settings.settings import Settings
from milepost.errors import (
    InvalidPolicy,
    PolicyOutOfRange,
    PreconditionFailed,
    UnknownCluster,
)
from milepost.positions.names import NamespaceName, TopicName
from milepost.storage.catalog.catalog import Doc
from milepost.storage.interface import Catalog, ChangeCatalog

# Where the catalog keeps them: namespace or topic name → policy → value.
FOLDERS: Final = {Level.NAMESPACE: "namespace policies", Level.TOPIC: "topic policies"}

_NOTHING_SET: Final[Values] = {}
# Namespaces whose policies are kept ready.
_KEPT_MAX: Final = 1000


class PolicyBook:
    SHARED: Final = FOLDERS[Level.NAMESPACE]
    """The folder that several workers share."""

    def __init__(
        self,
        change: ChangeCatalog,
        registry: ChangeCatalog,
        settings: Settings,
        *,
        check_namespace: Callable[[Catalog, str], None],
        on_change: Callable[[Level, str], Awaitable[None]],
    ) -> None:
        """`change` runs something in a transaction of the catalog that has the policies of topics,
        `registry` in one of that of namespaces. `check_namespace` raises in such a transaction if there is
        no namespace of a name. `on_change` is called when a change is durable, with what it was made to; it
        returns when the change is in force."""
        self._change = {Level.TOPIC: change, Level.NAMESPACE: registry}
        self._check_namespace = check_namespace
        self._settings = settings
        self._set: dict[Level, dict[str, Values]] = {level: {} for level in Level}
        self._on_change = on_change
        # What holds for topics that have set nothing themselves, by what their namespace has set: that is
        # nearly every topic, and to make it takes longer than all else that opens one.  Invariant: made by
        # the settings that hold, and of the very values that the namespace has.
        self._of_namespaces: dict[str, tuple[Values, TopicPolicies]] = {}
        # The same of what becomes of names that no topic has, which is asked for twice before one is made.
        self._auto_topics: dict[str, tuple[Values, AutoTopics]] = {}

    def use(self, settings: Settings) -> None:
        """The broker's own defaults are others now."""
        self._settings = settings
        self._of_namespaces.clear()
        self._auto_topics.clear()

    async def load(self) -> None:
        for level, folder in FOLDERS.items():
            self._set[level] = dict(await self._change[level](partial(_read, folder)))

    def follow(self, found: dict[str, dict[str, Doc]]) -> list[str]:
        """Another worker has changed policies of namespaces: these are all of them. `enforce` is to be
        called with what this returns."""
        known, now = self._set[Level.NAMESPACE], found[self.SHARED]
        changed = [
            name for name in {*known, *now} if known.get(name, {}) != now.get(name, _NOTHING_SET)
        ]
        for name in changed:
            known[name] = now.get(name, {})
        return changed

    async def enforce(self, names: Sequence[str]) -> None:
        """Return when the policies of these namespaces are in force."""
        for name in names:
            await self._on_change(Level.NAMESPACE, name)

    # -- asking ------------------------------------------------------------------------------------

    def values(self, level: Level, name: str) -> Values:
        """What was set there, and nothing that follows from it."""
        return self._set[level].get(name, _NOTHING_SET)

    def of(self, name: TopicName) -> TopicPolicies:
        """What holds for a topic."""
        namespace, topic = self.levels(name)
        if topic:
            return effective(self._settings, namespace, topic)
        key = str(name.namespace)
        made_of, policies = self._of_namespaces.get(key, (None, None))
        if policies is None or made_of is not namespace:
            policies = effective(self._settings, namespace, topic)
            if len(self._of_namespaces) >= _KEPT_MAX:
                self._of_namespaces.clear()
            self._of_namespaces[key] = namespace, policies
        return policies

    def levels(self, name: TopicName) -> tuple[Values, Values]:
        """What the namespace and what the topic has set."""
        return (
            self.values(Level.NAMESPACE, str(name.namespace)),
            self.values(Level.TOPIC, str(name.base)),
        )

    def auto_topics(self, namespace: NamespaceName) -> AutoTopics:
        key = str(namespace)
        values = self.values(Level.NAMESPACE, key)
        made_of, known = self._auto_topics.get(key, (None, None))
        if known is None or made_of is not values:
            known = auto_topics(self._settings, values)
            if len(self._auto_topics) >= _KEPT_MAX:
                self._auto_topics.clear()
            self._auto_topics[key] = values, known
        return known

    def max_topics(self, namespace: NamespaceName) -> int:
        return max_topics(self._settings, self.values(Level.NAMESPACE, str(namespace)))

    def users_of(self, policy: str, value: Json) -> list[str]:
        """The namespaces that have set a policy to a value."""
        found = self._set[Level.NAMESPACE].items()
        return sorted(name for name, values in found if values.get(policy) == value)

    # -- changing ----------------------------------------------------------------------------------

    async def set(
        self,
        level: Level,
        name: str,
        policy: Policy,
        value: object,
        *,
        subscription: str | None = None,
    ) -> None:
        """Set it to a value as it came from outside, for all or for one subscription of a topic; None
        removes it."""
        read = self.read(level, policy, value)
        await self._store(level, name, key_of(policy, subscription), read)

    def read(self, level: Level, policy: Policy, value: object) -> Json:
        """What is stored of a value as it came from outside; None for what removes the policy."""
        route = policy.route(level)
        assert route is not None, f"{policy.name} is none of a {level.value}"
        read: Json = None
        if value is None:
            value = route.null
        if value is not None:
            read = policy.shape.read(value, route.path)
            self._check(policy, read, route.path)
        return None if policy.unset_by is not None and read == policy.unset_by else read

    def put(self, catalog: Catalog, namespace: str, values: Values) -> None:
        """Store all that a namespace has set, in the change that makes or deletes it. `told` is to be called
        when that is durable."""
        if values:
            catalog.put_doc(self.SHARED, namespace, dict(values))
        else:
            catalog.delete_doc(self.SHARED, namespace)

    def told(self, namespace: str, values: Values) -> None:
        """A namespace was made with these, or is gone with all."""
        if values:
            self._set[Level.NAMESPACE][namespace] = values
        else:
            self._set[Level.NAMESPACE].pop(namespace, None)

    async def forget(self, level: Level, name: str) -> None:
        """Remove all of them: the topic is deleted, and another of its name begins anew."""
        folder, known = FOLDERS[level], self._set[level]

        def gone(_: bool) -> None:
            known.pop(name, None)

        # Also if memory knows of none: one may be on its way to the catalog.
        await self._change[level](lambda catalog: catalog.delete_doc(folder, name), gone)

    @staticmethod
    def erase(catalog: Catalog, topic: TopicName) -> None:
        """Forget those of a topic in the change that deletes it; `erased` is to be called behind it."""
        catalog.delete_doc(FOLDERS[Level.TOPIC], str(topic))

    def erased(self, topic: TopicName) -> None:
        self._set[Level.TOPIC].pop(str(topic), None)

    async def clear(self, level: Level, name: str) -> None:
        """Remove all of them from what stays; in force when this returns."""
        await self.forget(level, name)
        await self._on_change(level, name)

    def _check(self, policy: Policy, value: Json, name: str) -> None:
        """What no shape can know."""
        largest = self._settings.max_message_size
        if policy.name == "max_message_size" and value > largest:
            raise PolicyOutOfRange(f"{name} = {value}: the broker takes at most {largest}")
        if policy.name == "entry_filters":
            # Upstream looks for each among those that are installed; here none is.
            wanted = value["entryFilterNames"].partition(",")[0]
            raise InvalidPolicy(
                f"{name}: entry filter {wanted[:80]!a} is not installed"
                if wanted
                else f"{name}: no filter is named; DELETE removes them"
            )
        if policy.name == "replication_clusters":
            check_clusters(value, self._settings.cluster_name)
            if self._settings.cluster_name not in value:
                raise PreconditionFailed(f"{name}: this cluster has every topic of its own")

    async def _store(self, level: Level, name: str, key: str, value: Json) -> None:
        folder = FOLDERS[level]

        def store(catalog: Catalog) -> Doc:
            if level is Level.NAMESPACE:
                self._check_namespace(catalog, name)
            # Read there and not here: another change may be on its way.
            doc = catalog.doc(folder, name) or {}
            doc.pop(key, None)
            if value is not None:
                doc[key] = value
            if doc:
                catalog.put_doc(folder, name, doc)
            else:
                catalog.delete_doc(folder, name)
            return doc

        def stored(doc: Doc) -> None:
            self._set[level][name] = doc

        await self._change[level](store, stored)
        await self._on_change(level, name)


def _read(folder: str, catalog: Catalog) -> dict[str, Doc]:
    return catalog.docs(folder)


def check_clusters(names: Sequence[str], here: str) -> None:
    """Raise if the list is empty or names a cluster that does not exist: there is one."""
    if not names:
        raise PreconditionFailed("no cluster is named")
    unknown = [name for name in names if name != here]
    # Upstream asks for this cluster first.
    if unknown and here in names:
        raise UnknownCluster(f"cluster {unknown[0][:80]!a} does not exist; {here} does")
