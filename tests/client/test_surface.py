"""The official package's surface beside ours: every public name, method and argument of it is here, or is
listed below with the reason why not. A new release of it that brings a name makes this fail.
"""

from __future__ import annotations

import inspect
from enum import IntEnum
from operator import attrgetter
from typing import Any

import pytest

import milepost
import milepost.aio
import milepost.schema

pulsar = pytest.importorskip("pulsar")
pulsar_asyncio = pytest.importorskip("pulsar.asyncio")

FUNCTIONS = "Pulsar Functions run in Pulsar's own workers"
INNER = "a C++ object of the wheel's that its users do not make"
INNER_SCHEMA = "called by the wheel itself"
FAILOVER = "a service URL lists several hosts; a second cluster is another client"
TYPING = "not the package's own"

# Names of the package that are not ours.
NOT_HERE = {
    **dict.fromkeys(("Context", "Function", "IdentitySerDe", "PickleSerDe", "SerDe"), FUNCTIONS),
    **dict.fromkeys(("BatchReceivePolicy", "DeadLetterPolicyBuilder", "KeySharedPolicy"), INNER),
    **dict.fromkeys(("AutoClusterFailover", "ServiceInfo", "ServiceInfoProvider"), FAILOVER),
    **dict.fromkeys(("Callable", "List", "Optional", "Tuple", "Union", "timedelta"), TYPING),
    "AuthenticationAthenz": "AuthenticationToken takes a function, for any token",
    "AuthenticationOauth2": "AuthenticationToken takes a function, for any token",
    "MessageBatch": "batches are taken apart by the client",
}

# Methods and arguments that are not ours.
NOT_OF = {
    "Client.get_service_info": FAILOVER,
    "MessageId.wrap": INNER,
    "MessageId.__init__": "an id is a value: its arguments go by name (ledger_id, entry_id, ...)",
    "Authentication.__init__": "a plugin is a subclass in Python, not a shared library",
    "ConsumerBatchReceivePolicy.policy": INNER,
    "ConsumerDeadLetterPolicy.policy": INNER,
    "ConsumerKeySharedPolicy.policy": INNER,
    "EncryptionContext.__init__": INNER,
    "EncryptionKey.__init__": INNER,
    "TableView.__init__": INNER,
    "schema.Schema.attach_client": INNER_SCHEMA,
    "schema.Schema.decode_message": INNER_SCHEMA,
    "schema.AvroSchema.encode_dict": INNER_SCHEMA,
    "schema.AvroSchema.decode_message": INNER_SCHEMA,
    "schema.BytesSchema.encode": "every schema encodes an `obj`",
    "schema.Array.__init__": "what it is of goes by place, for arrays and maps alike",
    "schema.Map.__init__": "what it is of goes by place, for arrays and maps alike",
    "schema.Record.__init__": "a record's fields go by name",
}

# Defaults that differ.
OTHER_DEFAULTS = {
    "schema": "bytes are bytes without one",
    "batch_index_ack_enabled": "exactness is the product",
    "batching_enabled": "None is the default of either client: off here, on with asyncio",
    "disable_replication": "None and False are the same",
    "tls_validate_hostname": "a certificate of another host is none",
}

# Classes whose objects users make, so that their arguments count; others are made by the client.
MADE_BY_USERS = {
    "Client",
    "ConsoleLogger",
    "ConsumerBatchReceivePolicy",
    "ConsumerDeadLetterPolicy",
    "ConsumerKeySharedPolicy",
    "CryptoKeyReader",
    "FileLogger",
    *(name for name in dir(pulsar) if name.startswith("Authentication")),
}


def public(module: Any) -> list[str]:
    return [
        name
        for name, found in vars(module).items()
        if not name.startswith("_") and not inspect.ismodule(found)
    ]


def classes() -> list[tuple[str, Any, Any]]:
    """What both have, of either client."""
    both = [
        (name, getattr(pulsar, name), getattr(milepost, name))
        for name in public(pulsar)
        if name in milepost.__all__ and name not in milepost.schema.__all__
    ]
    both += [
        (f"asyncio.{name}", getattr(pulsar_asyncio, name), getattr(milepost.aio, name))
        for name in ("Client", "Producer", "Consumer", "Reader")
    ]
    both += [
        (f"schema.{name}", getattr(pulsar.schema, name), getattr(milepost.schema, name))
        for name in public(pulsar.schema)
        if name in milepost.schema.__all__ and name != "Field"
    ]
    return [(name, theirs, ours) for name, theirs, ours in both if inspect.isclass(theirs)]


@pytest.mark.parametrize("name", public(pulsar))
def test_a_name_of_the_package(name: str) -> None:
    if name in NOT_HERE:
        assert not hasattr(milepost, name), "it is here: take it from the list"
    else:
        assert getattr(milepost, name) is not None


def test_the_lists_are_of_what_is_there() -> None:
    assert set(NOT_HERE) <= set(public(pulsar))
    for listed in NOT_OF:
        name, _, method = listed.rpartition(".")
        found = attrgetter(name)(pulsar)
        assert method == "__init__" or hasattr(found, method), listed


@pytest.mark.parametrize("name", ["asyncio", "exceptions", "schema"])
def test_a_module_of_the_package(name: str) -> None:
    theirs, ours = getattr(pulsar, name), getattr(milepost, name)
    for found in public(theirs):
        value = getattr(theirs, found)
        if inspect.isclass(value) and value.__module__.startswith(("pulsar", "_pulsar")):
            where = milepost if found in milepost.__all__ else ours
            assert hasattr(where, found), found


def test_exceptions_are_of_one_tree() -> None:
    for name in public(pulsar.exceptions):
        assert issubclass(getattr(milepost, name), milepost.PulsarException), name


@pytest.mark.parametrize(("name", "theirs", "ours"), classes())
def test_members_and_methods_of_a_class(name: str, theirs: Any, ours: Any) -> None:
    if hasattr(theirs, "__members__"):
        assert issubclass(ours, IntEnum)
        assert {key: int(value) for key, value in theirs.__members__.items()} == dict(
            ours.__members__
        )
        return
    if issubclass(theirs, BaseException):
        return
    for method, found in vars(theirs).items():
        if method.startswith("_") or f"{name}.{method}" in NOT_OF:
            continue
        assert hasattr(ours, method) or method in getattr(ours, "__slots__", ()), method
        if inspect.isfunction(found) and callable(getattr(ours, method)):
            compare(f"{name}.{method}", found, getattr(ours, method))
    is_made_by_users = name.startswith("schema.") or name.split(".")[-1] in MADE_BY_USERS
    if is_made_by_users and f"{name}.__init__" not in NOT_OF:
        compare(f"{name}.__init__", theirs.__init__, ours.__init__)


def compare(name: str, theirs: Any, ours: Any) -> None:
    """Our arguments begin with theirs, by name, in their order, with their defaults; and what is awaited
    there may be awaited here."""
    expected = [
        one
        for one in inspect.signature(theirs).parameters.values()
        if one.kind is not inspect.Parameter.VAR_KEYWORD and one.name != "self"
    ]
    given = inspect.signature(ours).parameters
    places = [
        one.name
        for one in given.values()
        if one.kind in (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.POSITIONAL_ONLY)
        and one.name != "self"
    ]
    if name.startswith("asyncio.Client."):
        # The synchronous client has listeners among its arguments; one signature serves both.
        places = [one for one in places if not one.endswith("_listener")]
        if name.endswith("subscribe"):
            places = [one for one in places if one in {each.name for each in expected}]
    if inspect.iscoroutinefunction(theirs) and not inspect.iscoroutinefunction(ours):
        assert inspect.signature(ours).return_annotation == "Done", name
    elif inspect.iscoroutinefunction(ours):
        assert inspect.iscoroutinefunction(theirs), name
    names = [one.name for one in expected]
    assert places[: len(names)] == names, name
    for one in expected:
        if one.name not in given or one.name in OTHER_DEFAULTS:
            continue
        default = given[one.name].default
        if one.default is inspect.Parameter.empty:
            continue  # asked for there, perhaps not here
        wanted = int(one.default) if hasattr(one.default, "value") else one.default
        assert default == wanted, f"{name}({one.name})"
