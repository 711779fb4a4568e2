"""The operations that commands and routes need the right for.

One word stands beside every handler of a command and every REST route, so that the list of handlers
is the list of rules: a new one without a word is a mistake that no test needs to find. Who may do
what follows from the word alone, as upstream has it:

    >>> Operation.PRODUCE.scope, Operation.PRODUCE.actions
    (<Scope.TOPIC: 'topic'>, (<Action.PRODUCE: 'produce'>,))

A superuser may do everything, a tenant's admin everything in that tenant but what only superusers may;
everyone else what is granted. This module judges no role: `authorizer.py` does.
"""

from __future__ import annotations

from enum import Enum, StrEnum


class Action(StrEnum):
    """What a role can be granted, by Pulsar's names."""

    PRODUCE = "produce"
    CONSUME = "consume"
    FUNCTIONS = "functions"
    SOURCES = "sources"
    SINKS = "sinks"
    PACKAGES = "packages"


class Scope(Enum):
    """What an operation is done to; its name is what has to be known to judge it."""

    NOTHING = "nothing"
    BROKER = "broker"
    TENANT = "tenant"
    NAMESPACE = "namespace"
    TOPIC = "topic"


class Operation(Enum):
    """(scope, the actions any of which is enough for a role that is no admin, what is meant)"""

    OPEN = (Scope.NOTHING, (), "nothing: not even to be known")
    IDENTIFIED = (Scope.NOTHING, (), "to be known, with whatever role")
    HELD = (Scope.NOTHING, (), "what the connection opened before, and was judged for then")
    METRICS = (Scope.NOTHING, (), "nothing, or to be known where `authenticate_metrics` is on")

    SUPERUSER = (Scope.BROKER, (), "to be a superuser")
    ADMINISTER_TENANT = (Scope.TENANT, (), "to be an admin of the tenant")
    ADMINISTER_NAMESPACE = (Scope.NAMESPACE, (), "to be an admin of the namespace's tenant")
    ADMINISTER_TOPIC = (Scope.TOPIC, (), "to be an admin of the topic's tenant")

    LIST_TOPICS = (
        Scope.NAMESPACE,
        (Action.CONSUME, Action.PRODUCE),
        "to produce or consume in the namespace",
    )
    FUNCTIONS = (Scope.NAMESPACE, (Action.FUNCTIONS,), "functions in the namespace")
    SOURCES = (Scope.NAMESPACE, (Action.SOURCES,), "sources in the namespace")
    SINKS = (Scope.NAMESPACE, (Action.SINKS,), "sinks in the namespace")
    PACKAGES = (Scope.NAMESPACE, (Action.PACKAGES,), "packages in the namespace")

    LOOK_UP = (Scope.TOPIC, (Action.PRODUCE, Action.CONSUME), "to produce or consume on the topic")
    PRODUCE = (Scope.TOPIC, (Action.PRODUCE,), "to produce on the topic")
    CONSUME = (Scope.TOPIC, (Action.CONSUME,), "to consume from the topic, by that subscription")

    def __init__(self, scope: Scope, actions: tuple[Action, ...], meaning: str) -> None:
        self.scope = scope
        # Invariant: empty where no grant is enough.
        self.actions = actions
        # Completes "needs …" for a person.
        self.meaning = meaning
