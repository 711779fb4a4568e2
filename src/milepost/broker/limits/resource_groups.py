"""Rate limits that all topics of several namespaces share.

A namespace is in one group or in none (the policy `resource_group`); its topics' own rates hold besides. One
bucket is everybody's: who is fast leaves less for the others. Upstream divides a group's rates among brokers
by what each reports; here one broker has all of it at once.

    await groups.put("batch", {"publishRateInMsgs": 1000})
    groups.publish_throttle("batch")       # the same for every topic of the group; None: no limit
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from milepost.broker.limits.publish_rate import PublishThrottle
from milepost.broker.limits.token_bucket import Throttle
from milepost.broker.policies.effective import Rate
from milepost.broker.policies.shapes import INT_MAX, LONG_MAX, Json, Record, Whole
from milepost.errors import NotFound, TooManyRequests
from milepost.positions.labels import check_label
from milepost.storage.catalog.catalog import Doc
from milepost.storage.interface import Catalog, ChangeCatalog

FOLDER: Final = "resource groups"
COUNT_MAX: Final = 1000

# Less than none is no limit.
RATES: Final = Record(
    {
        "publishRateInMsgs": (Whole(-INT_MAX, INT_MAX), -1),
        "publishRateInBytes": (Whole(-LONG_MAX, LONG_MAX), -1),
        "dispatchRateInMsgs": (Whole(-INT_MAX, INT_MAX), -1),
        "dispatchRateInBytes": (Whole(-LONG_MAX, LONG_MAX), -1),
    }
)
_NO_RATES: Final = {name: default for name, (_, default) in RATES.fields.items()}


class _Group:
    """One group's rates and the buckets that they fill; a rate that stays keeps its bucket."""

    def __init__(self, now: Callable[[], float], on_hold: Callable[[], None]) -> None:
        self._now = now
        self._on_hold = on_hold
        self.rates: dict[str, Json] = dict(_NO_RATES)
        self.publish: PublishThrottle | None = None
        self.dispatch: Throttle | None = None

    def use(self, rates: dict[str, Json]) -> None:
        self.rates = rates
        publish = _rate(rates["publishRateInMsgs"], rates["publishRateInBytes"])
        if (self.publish.rate if self.publish else None) != publish:
            self.end()
            if publish is not None:
                self.publish = PublishThrottle(publish, self._now, self._on_hold)
        dispatch = _rate(rates["dispatchRateInMsgs"], rates["dispatchRateInBytes"])
        if (self.dispatch.rate if self.dispatch else None) != dispatch:
            self.dispatch = None if dispatch is None else Throttle(dispatch, self._now)

    def end(self) -> None:
        """Release all that it holds."""
        if self.publish is not None:
            self.publish.end()
        self.publish = None


class ResourceGroups:
    def __init__(
        self, change: ChangeCatalog, now: Callable[[], float], on_hold: Callable[[], None]
    ) -> None:
        """`on_hold` is called for each connection that has to wait."""
        self._change = change
        self._now = now
        self._on_hold = on_hold
        self._groups: dict[str, _Group] = {}

    async def load(self) -> None:
        docs: dict[str, Doc] = await self._change(lambda catalog: catalog.docs(FOLDER))
        for name, rates in docs.items():
            self._use(name, rates)

    def _use(self, name: str, rates: dict[str, Json]) -> None:
        group = self._groups.setdefault(name, _Group(self._now, self._on_hold))
        group.use(rates)

    # -- asking ------------------------------------------------------------------------------------

    def names(self) -> list[str]:
        return sorted(self._groups)

    def rates(self, name: str) -> dict[str, Json]:
        if name not in self._groups:
            raise NotFound(f"resource group {name[:80]!a} does not exist")
        return self._groups[name].rates

    def publish_throttle(self, name: str | None) -> PublishThrottle | None:
        group = None if name is None else self._groups.get(name)
        return None if group is None else group.publish

    def dispatch_throttle(self, name: str | None) -> Throttle | None:
        group = None if name is None else self._groups.get(name)
        return None if group is None else group.dispatch

    # -- changing ----------------------------------------------------------------------------------

    async def put(self, name: str, given: dict[str, Json]) -> None:
        """Make a group, or change those of its rates that are given."""
        check_label("resource group", name)

        def store(catalog: Catalog) -> dict[str, Json]:
            before = catalog.doc(FOLDER, name)
            if before is None and len(catalog.docs(FOLDER)) >= COUNT_MAX:
                raise TooManyRequests(f"there are {COUNT_MAX} resource groups already")
            rates = RATES.read({**(before or _NO_RATES), **_known(given)}, "resource group")
            catalog.put_doc(FOLDER, name, rates)
            return rates

        await self._change(store, lambda rates: self._use(name, rates))

    async def delete(self, name: str) -> None:
        self.rates(name)

        def store(catalog: Catalog) -> None:
            catalog.delete_doc(FOLDER, name)

        def gone(_: None) -> None:
            if (group := self._groups.pop(name, None)) is not None:
                group.end()

        await self._change(store, gone)


def _known(given: dict[str, Json]) -> dict[str, Json]:
    """Unknown fields are dropped; null leaves a rate as it is."""
    return {key: value for key, value in given.items() if key in RATES.fields and value is not None}


def _rate(messages: int, size: int) -> Rate | None:
    return Rate(max(messages, 0), max(size, 0)) if messages > 0 or size > 0 else None
