"""The grants of all namespaces, in memory and in the catalog.

A judgement asks this alone. A change is in the catalog before it is here; then `on_change` is told of its
namespace, so that clients whose right is gone are found.
"""

from __future__ import annotations

from collections.abc import Callable

from milepost.broker.auth.grants import Grants
from milepost.errors import TooManyRequests
from milepost.positions.names import NamespaceName
from milepost.storage.catalog.catalog import Doc
from milepost.storage.interface import Catalog, ChangeCatalog

GRANTS = "grants"

# Roles of one namespace, on itself, its topics and its subscriptions together: all are kept in memory.
ROLES_MAX = 100_000

_NONE = Grants()


class GrantBook:
    SHARED = GRANTS
    """The folder that several workers share."""

    def __init__(
        self,
        change: ChangeCatalog,
        *,
        check: Callable[[Catalog, str], None],
        on_change: Callable[[NamespaceName], None],
    ) -> None:
        """`change` runs something in a transaction of the catalog; `check` raises in it if there is no
        namespace of a name. `on_change` is told of a namespace whose grants have changed."""
        self._change = change
        self._check = check
        # Namespace → its grants. Invariant: none that are empty.
        self._grants: dict[str, Grants] = {}
        self._on_change = on_change

    async def load(self) -> None:
        documents = await self._change(lambda catalog: catalog.docs(GRANTS))
        self._grants = {name: Grants.read(document) for name, document in documents.items()}

    def follow(self, found: dict[str, dict[str, Doc]]) -> None:
        """Another worker has changed grants: these are all of them."""
        now = {name: Grants.read(document) for name, document in found[GRANTS].items()}
        changed = [
            name for name in {*self._grants, *now} if self._grants.get(name) != now.get(name)
        ]
        self._grants = now
        for name in changed:
            self._on_change(NamespaceName.parse(name))

    def of(self, namespace: NamespaceName) -> Grants:
        return self._grants.get(str(namespace), _NONE)

    async def edit(self, namespace: NamespaceName, change: Callable[[Grants], Grants]) -> None:
        """Change what is granted in a namespace. Two edits at once are one after the other."""
        name = str(namespace)

        def store(catalog: Catalog) -> Grants:
            self._check(catalog, name)
            # Read where it is written: another edit may have been stored since this one was asked for.
            grants = change(Grants.read(catalog.doc(GRANTS, name) or {}))
            self.put(catalog, name, grants)
            return grants

        await self._change(store, lambda grants: self.told(namespace, grants))

    def put(self, catalog: Catalog, namespace: str, grants: Grants) -> None:
        """Store the grants of a namespace, also in the change that makes or deletes it. `told` is to be
        called when that is durable."""
        if grants.size > ROLES_MAX:
            raise TooManyRequests(f"namespace {namespace} has {ROLES_MAX} roles and grants already")
        if grants == _NONE:
            catalog.delete_doc(GRANTS, namespace)
        else:
            catalog.put_doc(GRANTS, namespace, grants.document())

    def told(self, namespace: NamespaceName, grants: Grants) -> None:
        """A namespace has these now."""
        if grants == _NONE:
            self._grants.pop(str(namespace), None)
        else:
            self._grants[str(namespace)] = grants
        self._on_change(namespace)
