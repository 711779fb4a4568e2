"""The settings that an operator changes while the broker runs, kept over a restart.

Only what is marked *live* may change: limits of connections, and everything that policies fall back on. A
change is checked, then durable, then in force for every open topic; without it the setting is again what
the operator's files say.

    await dynamic.set("maxProducersPerTopic", "5")
    broker.settings.max_producers_per_topic == 5

Keys are Pulsar's, or our own where it has none. Those of machinery that is not here are kept, and change
nothing (`kept_settings.py`).
"""

from __future__ import annotations

import dataclasses
import difflib
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from milepost.broker.settings import kept_settings
from milepost.broker.settings.setting import Alias, Setting, Value
from milepost.broker.settings.settings import TABLE, Settings
from milepost.errors import InvalidSetting, PreconditionFailed
from milepost.storage.catalog.catalog import Doc
from milepost.storage.interface import Catalog

if TYPE_CHECKING:
    from milepost.broker.broker import Broker

logger = logging.getLogger(__name__)

FOLDER: Final = "settings"
NAME: Final = "dynamic"
KEPT_NAME: Final = "kept"


class DynamicSettings:
    SHARED: Final = FOLDER
    """The folder that several workers share."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._started_with = broker.settings
        # Setting → value, for those that were changed.
        self._changed: dict[str, Any] = {}
        self.kept: dict[str, str] = {}
        """Key → text, of those on which nothing depends."""

    async def load(self) -> None:
        await self._broker.registry(lambda catalog: {FOLDER: catalog.docs(FOLDER)}, self.follow)
        await self.apply()

    def follow(self, found: dict[str, dict[str, Doc]]) -> None:
        """These are all settings that were changed, here or by another worker; `apply` is to be called."""
        docs = found[FOLDER]
        doc, self.kept = docs.get(NAME, {}), docs.get(KEPT_NAME, {})
        self._changed = {}
        for name, value in doc.items():
            setting = TABLE.get(name)
            if setting is None or not setting.live or setting.take(value) is None:
                # Of another version, whose range was another.
                logger.warning("dynamic setting %s = %r is not used: it is none here", name, value)
            else:
                self._changed[name] = value

    def values(self) -> dict[str, str]:
        """What was changed, as text."""
        changed = {
            key_of(TABLE[name]): text_of(TABLE[name], value)
            for name, value in self._changed.items()
        }
        return changed | self.kept

    async def set(self, key: str, text: str) -> None:
        """Change a setting; it is in force when this returns."""
        if key in kept_settings.NAMES:
            kept_settings.check(key, text)
            logger.info("dynamic setting %s is kept; this broker has nothing that it changes", key)
            await self._change(KEPT_NAME, key, text, self._keep)
            return
        setting, alias = live_setting(key)
        value = setting.parse(text, alias)
        if value is None:
            raise InvalidSetting(f"{key} = {text[:80]!a}: expected {setting.allowed}")
        self._with({**self._changed, setting.name: value})  # or it is refused, and changes nothing
        await self._store(setting.name, value)

    async def remove(self, key: str) -> None:
        """Back to what the broker was started with."""
        if key in kept_settings.NAMES:
            await self._change(KEPT_NAME, key, None, self._keep)
            return
        setting, _ = live_setting(key)
        await self._store(setting.name, None)

    async def _store(self, name: str, value: Value | None) -> None:
        def stored(doc: Doc) -> None:
            self._changed = {name: value for name, value in doc.items() if name in TABLE}

        await self._change(NAME, name, value, stored)
        await self.apply()

    def _keep(self, doc: Doc) -> None:
        self.kept = doc

    async def _change(
        self, document: str, name: str, value: Value | None, stored: Callable[[Doc], None]
    ) -> None:
        """Change one name of a document, or remove it; `stored` gets the document as it is then."""

        def store(catalog: Catalog) -> Doc:
            # Read there and not here: another change may be on its way.
            doc = catalog.doc(FOLDER, document) or {}
            doc.pop(name, None)
            if value is not None:
                doc[name] = value
            catalog.put_doc(FOLDER, document, doc)
            return doc

        await self._broker.registry(store, stored)

    def _with(self, changed: dict[str, Any]) -> Settings:
        return dataclasses.replace(self._started_with, **changed) if changed else self._started_with

    async def apply(self) -> None:
        """Let the broker use what was changed; in force when this returns."""
        broker = self._broker
        settings = self._with(self._changed)
        if settings == broker.settings:
            return
        broker.settings = settings
        broker.directory.partitions_max = settings.max_partitions_per_topic
        await broker.policies.use(settings)


def live_keys() -> list[str]:
    """What may be changed."""
    return sorted({*kept_settings.NAMES, *(key_of(one) for one in TABLE.values() if one.live)})


def live_setting(key: str) -> tuple[Setting, Alias | None]:
    for setting in TABLE.values():
        for alias in setting.aliases:
            if setting.live and alias.key == key:
                return setting, alias
        if setting.live and setting.name == key:
            return setting, None
    near = difflib.get_close_matches(key[:80], live_keys(), n=1)
    hint = (
        f"did you mean {near[0]}?" if near else "`milepost brokers list-dynamic-config` lists them"
    )
    raise PreconditionFailed(
        f"{key[:80]!a} is not a setting that can change while the broker runs; {hint}"
    )


def runtime(settings: Settings) -> dict[str, str]:
    """Every setting as it is now, by every key that it has; secrets are hidden."""
    shown: dict[str, str] = {}
    for setting in TABLE.values():
        value = getattr(settings, setting.name)
        aliases = [one for one in setting.aliases if not one.names_classes]
        for alias in aliases:
            shown[alias.key] = text_of(setting, value, alias)
        if not aliases:
            shown[setting.name] = text_of(setting, value)
    return dict(sorted(shown.items()))


def key_of(setting: Setting) -> str:
    return setting.aliases[0].key if setting.aliases else setting.name


def text_of(setting: Setting, value: Value, alias: Alias | None = None) -> str:
    """As a conf file of Pulsar would have it: plain numbers, in the key's own unit."""
    alias = alias or (setting.aliases[0] if setting.aliases else None)
    if isinstance(value, int | float) and not isinstance(value, bool):
        number = value / alias.unit if alias is not None and alias.unit != 1 else value
        return str(int(number)) if number == int(number) else f"{number:g}"
    return setting.show(value)
