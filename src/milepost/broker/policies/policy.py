"""One policy: its name, JSON type, levels and default (class Policy).

As upstream merges them, the nearest level that says anything decides: the topic, then its namespace, then
the broker's settings. A value of one level replaces the whole value of the one behind it; nothing is merged
inside a value.

    >>> from milepost.broker.policies.table import POLICIES
    >>> from milepost.broker.settings.settings import Settings
    >>> ttl, namespace, topic = POLICIES["message_ttl"], {"message_ttl": 60}, {"message_ttl": 5}
    >>> [merged(ttl, Settings(), *levels) for levels in [({}, {}), (namespace, {}), (namespace, topic)]]
    [0, 60, 5]
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Final, NamedTuple

from milepost.broker.policies.shapes import Json, Shape

if TYPE_CHECKING:
    # The command line reads the table of policies, and need not load a broker's settings for it.
    from milepost.broker.settings.settings import Settings

Values = Mapping[str, Json]
"""What one namespace or topic has set: policy → value."""


class Level(Enum):
    NAMESPACE = "namespace"
    TOPIC = "topic"


class _Nothing(Enum):
    NOTHING = "nothing"


NOTHING: Final = _Nothing.NOTHING
"""An empty answer, which is no JSON."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """How upstream's REST interface has a policy at one level."""

    path: str
    """The last part of it."""
    method: str = "POST"
    """What sets it."""
    removable: bool = True
    removal: str = ""
    """The last part of the path that removes it, where that is another."""
    unset: Json = NOTHING
    """What GET answers while nothing is set."""
    unset_status: int = 200
    query: str = ""
    """The value is this query parameter, not the body."""
    kind: str = ""
    """One of several values under one path, told apart by `backlogQuotaType`."""
    bare: Json = None
    """What setting it without a body means; None removes it, as null does."""
    is_plain: bool = False
    """A text that is answered, and may be sent, without quotation marks."""
    in_path: bool = False
    """The value is one more part of the path; its routes are written by hand."""
    null: Json = None
    """What setting it to null means; None removes it."""
    per_subscription: str = ""
    """Of a topic: the last part of the path behind a subscription's name, for which alone it is set."""


class Of(NamedTuple):
    """A setting, in the default of a policy: its value stands here."""

    setting: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    name: str
    """Its key in the catalog, and the word that commands are made of."""
    doc: str
    shape: Shape
    default: Json = None
    """What holds when no level has said anything, with the settings that say it; None: nothing does."""
    namespace: Route | None = None
    topic: Route | None = None
    unset_by: Json = None
    """A value that means: as the level behind has it."""
    acts: bool = True
    """False: kept and answered for those who ask; nothing in this broker depends on it."""

    def route(self, level: Level) -> Route | None:
        return self.namespace if level is Level.NAMESPACE else self.topic

    @property
    def settings(self) -> list[str]:
        """The settings that the default is made of."""
        parts = self.default.values() if isinstance(self.default, dict) else [self.default]
        return [part.setting for part in parts if isinstance(part, Of)]

    def default_by(self, settings: Settings) -> Json:
        return _filled_in(self.default, settings)


def _filled_in(default: Json, settings: Settings) -> Json:
    if isinstance(default, Of):
        return getattr(settings, default.setting)
    if isinstance(default, dict):
        return {name: _filled_in(part, settings) for name, part in default.items()}
    return [_filled_in(part, settings) for part in default] if type(default) is list else default


def key_of(policy: Policy, subscription: str | None = None) -> str:
    """The key under which a level has set it, for itself or for one subscription."""
    return policy.name if subscription is None else f"{policy.name}/{subscription}"


def merged(policy: Policy, settings: Settings, namespace: Values, topic: Values) -> Json:
    """What holds for a topic."""
    for values in (topic, namespace):
        if values.get(policy.name) is not None:
            return values[policy.name]
    return policy.default_by(settings)
