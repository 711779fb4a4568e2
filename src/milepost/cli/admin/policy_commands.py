"""Makes the get-, set- and remove- commands of each policy from the table of policies.

None is written by hand: the table of policies says which there are, what they mean and where they are set,
`policy_options.py` which options set them. The backlog quotas are the exception, as they are in REST: there
are two under one name.

    @click.group(cls=PolicyGroup, level=Level.NAMESPACE)
    def namespaces() -> None: ...

    milepost namespaces set-retention -t 3h -s 1G public/default
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from milepost.broker.policies.policy import Level, Policy
from milepost.broker.policies.shapes import Record
from milepost.broker.policies.table import TABLE
from milepost.cli.admin.policy_options import given, parameters_of, policy_of, words_of
from milepost.cli.connection.connection import connection
from milepost.cli.connection.remote import RemoteCommand
from milepost.cli.output import show_object
from milepost.cli.quantities import DURATION, SIZE

if TYPE_CHECKING:
    from milepost.admin import Admin

GET, SET, REMOVE = "get", "set", "remove"
DELETE = "delete"
"""What pulsar-admin calls the removal of some."""

Values = dict[str, Any]

_QUOTAS = {route.kind: one for one in TABLE if (route := one.topic) is not None and route.kind}
_QUOTA_DOC = "How large and how old a backlog may be, and what happens beyond it."
_QUOTA_KINDS = click.Choice(list(_QUOTAS))
# `pulsar-admin topics` has these beside `set-deduplication`.
_SWITCHES = {"enable-deduplication": True, "disable-deduplication": False}


def names(level: Level) -> Iterator[tuple[str, str]]:
    """What help lists: the word behind `get-`, `set-` and `remove-`, and what it means."""
    for policy in TABLE:
        route = policy.route(level)
        if route is not None and not route.kind:
            yield words_of(policy, level)[0], policy.doc
    yield "backlog-quota", _QUOTA_DOC


def command_of(level: Level, name: str) -> click.Command | None:
    """The command of this name, made now; None if no policy has it."""
    verb, _, word = name.partition("-")
    if word in ("backlog-quota", "backlog-quotas"):
        return _QUOTA_COMMANDS[verb](level, name) if verb in _QUOTA_COMMANDS else None
    if level is Level.TOPIC and name in _SWITCHES:
        return _switching(name, on=_SWITCHES[name])
    policy = policy_of(level, word)
    if policy is None or verb not in _COMMANDS:
        return None
    route = policy.route(level)
    assert route is not None
    if verb in (REMOVE, DELETE) and route.null is not None:
        return None  # upstream would set it: there is no way to remove it
    return _COMMANDS[verb](level, name, policy)


# -- one policy --------------------------------------------------------------------------------------


def _get(level: Level, name: str, policy: Policy) -> click.Command:
    def run(**values: Any) -> None:
        with connection().admin() as admin:
            show_object(_ask(admin, level, policy, values))

    return _command(level, name, run, f"What is set: {_lower(policy.doc)}", _getting(level, policy))


def _set(level: Level, name: str, policy: Policy) -> click.Command:
    def run(**values: Any) -> None:
        value = given(policy, values)
        with connection().admin() as admin:
            _put(admin, level, policy, values, value)

    options = [*parameters_of(policy), *_of_topic(level, policy)]
    return _command(level, name, run, f"Set: {_lower(policy.doc)}", options)


def _remove(level: Level, name: str, policy: Policy) -> click.Command:
    route = policy.route(level)
    assert route is not None

    def run(**values: Any) -> None:
        with connection().admin() as admin:
            if not route.removable:
                # There is no call that removes it. A value that means nothing, or none at all, does.
                _put(admin, level, policy, values, policy.unset_by)
            else:
                path, which = _which(level, policy, values)
                _call(admin, "remove", level, values)(route.removal or path, **which)

    return _command(
        level,
        name,
        run,
        "Set nothing, so that the level behind decides.",
        _of_topic(level, policy),
    )


_COMMANDS: dict[str, Callable[[Level, str, Policy], click.Command]] = {
    GET: _get,
    SET: _set,
    REMOVE: _remove,
    DELETE: _remove,
}


def _ask(admin: Admin, level: Level, policy: Policy, values: Values) -> Any:
    path, which = _which(level, policy, values)
    return _call(admin, "get", level, values)(path, **which)


def _put(admin: Admin, level: Level, policy: Policy, values: Values, value: Any) -> None:
    path, which = _which(level, policy, values)
    if level is Level.NAMESPACE and policy.namespace is not None and policy.namespace.in_path:
        path, value = f"{path}/{value}", None
    _call(admin, "set", level, values)(path, value, **which)


def _call(admin: Admin, verb: str, level: Level, values: Values) -> Callable[..., Any]:
    """The admin client's call for a policy of this level, of what the command line names."""
    if level is Level.NAMESPACE:
        return partial(getattr(admin, f"{verb}_policy"), values["namespace"])
    call = getattr(admin, f"{verb}_topic_policy")
    flags = {name: values[name] for name in ("applied", "is_global") if name in values}
    return partial(call, values["topic"], **flags)


def _which(level: Level, policy: Policy, values: Values) -> tuple[str, dict[str, Any]]:
    """The path of a policy, or of a topic's policy for one of its subscriptions."""
    route = policy.route(level)
    assert route is not None
    if values.get("subscription"):
        return route.per_subscription, {"subscription": values["subscription"]}
    return route.path, {}


def _switching(name: str, *, on: bool) -> click.Command:
    policy = policy_of(Level.TOPIC, "deduplication")
    assert policy is not None

    def run(**values: Any) -> None:
        with connection().admin() as admin:
            _put(admin, Level.TOPIC, policy, values, on)

    return _command(Level.TOPIC, name, run, policy.doc, _of_topic(Level.TOPIC, policy))


# -- backlog quotas ----------------------------------------------------------------------------------


def _get_quotas(level: Level, name: str) -> click.Command:
    def run(**values: Any) -> None:
        with connection().admin() as admin:
            show_object(_call(admin, "get", level, values)("backlogQuotaMap"))

    return _command(level, name, run, _QUOTA_DOC, _getting(level))


def _set_quota(level: Level, name: str) -> click.Command:
    shape = _QUOTAS["destination_storage"].shape
    assert isinstance(shape, Record)
    policies = getattr(shape.fields["policy"][0], "names", ())
    options = [
        click.Option(["-l", "--limit"], type=SIZE, help="Of destination_storage: 10M, 16G."),
        click.Option(["-lt", "--limitTime", "limit_time"], type=DURATION, help="Of message_age."),
        click.Option(
            ["-p", "--policy"],
            type=click.Choice(policies),
            required=True,
            help="What becomes of publishers or of the backlog.",
        ),
        click.Option(
            ["-t", "--type", "kind"],
            type=_QUOTA_KINDS,
            default="destination_storage",
            help="Of which limit: bytes or age.  [destination_storage]",
        ),
        *_of_topic(level),
    ]

    def run(**values: Any) -> None:
        kind, limit, limit_s = values["kind"], values["limit"], values["limit_time"]
        if kind == "destination_storage" and limit is None:
            raise click.UsageError(f"a quota of {kind} needs --limit")
        if kind == "message_age" and limit_s is None:
            raise click.UsageError(f"a quota of {kind} needs --limitTime")
        value = {
            "limitSize": -1 if limit is None else limit,
            "limitTime": -1 if limit_s is None else limit_s,
            "policy": values["policy"],
        }
        with connection().admin() as admin:
            _call(admin, "set", level, values)("backlogQuota", value, backlogQuotaType=kind)

    return _command(level, name, run, _QUOTA_DOC, options)


def _remove_quota(level: Level, name: str) -> click.Command:
    options = [
        click.Option(
            ["-t", "--type", "kind"],
            type=_QUOTA_KINDS,
            default="destination_storage",
            help="Of which limit: bytes or age.  [destination_storage]",
        ),
        *_of_topic(level),
    ]

    def run(**values: Any) -> None:
        with connection().admin() as admin:
            _call(admin, "remove", level, values)("backlogQuota", backlogQuotaType=values["kind"])

    return _command(level, name, run, "Set no such quota.", options)


_QUOTA_COMMANDS: dict[str, Callable[[Level, str], click.Command]] = {
    GET: _get_quotas,
    SET: _set_quota,
    REMOVE: _remove_quota,
}


# -- what they share ---------------------------------------------------------------------------------


def _command(
    level: Level, name: str, run: Callable[..., None], said: str, options: list[click.Option]
) -> click.Command:
    target = click.Argument([level.value])
    return RemoteCommand(name, callback=run, help=said, params=[target, *options])


def _of_topic(level: Level, policy: Policy | None = None) -> list[click.Option]:
    if level is Level.NAMESPACE:
        return []
    options = [click.Option(["-g", "--global", "is_global"], is_flag=True, hidden=True)]
    if policy is not None and policy.topic is not None and policy.topic.per_subscription:
        options.append(click.Option(["-s", "--subscription"], help="Of this one only."))
    return options


def _getting(level: Level, policy: Policy | None = None) -> list[click.Option]:
    if level is Level.NAMESPACE:
        return []
    applied = click.Option(
        ["-ap", "-a", "--applied"], is_flag=True, help="What holds, whichever level has set it."
    )
    return [applied, *_of_topic(level, policy)]


def _lower(text: str) -> str:
    return text[:1].lower() + text[1:]
