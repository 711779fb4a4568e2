"""Runs a command against a broker, and tells its refusals.

A refusal is one line: the command, the object it was about, the broker's reason, and what to do
next. Where the broker is not to be reached, the line says which address was tried.

    milepost: topics stats persistent://public/default/x: no such topic; `milepost topics list
    public/default` shows what there is
"""

from __future__ import annotations

import importlib
import sys
from typing import TYPE_CHECKING, Any

import click

from milepost.cli.connection.connection import connection, connection_options
from milepost.cli.connection.offers import offer_names
from milepost.cli.exits import CommandFailed, Exit, connect_step
from milepost.cli.output import output_option
from milepost.client.connection.endpoint import Endpoint

if TYPE_CHECKING:
    from milepost.admin import AdminError

# Commands that something else may stand in the way of.
_DELETING = ("delete", "delete-partitioned-topic", "unsubscribe")

# Arguments that name what a command is about, in the order in which they are told.
_OBJECTS = ("tenant", "namespace", "topic", "subscription", "role")


class RemoteCommand(click.Command):
    """A command with the options of a connection, hidden: the root's help has them."""

    def __init__(self, *args: Any, has_output: bool = True, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        offer_names(self.params)
        if has_output:
            self.params.append(output_option())
        # Upstream's `brokers namespaces --url` is the broker that is asked about, not the one that is asked.
        own = {word for one in self.params for word in one.opts}
        self.params += [one for one in connection_options(hidden=True) if own.isdisjoint(one.opts)]

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except Exception as error:
            if not _is_admin_error(error):
                raise
            raise told(ctx, connection(), error) from None


def _is_admin_error(error: Exception) -> bool:
    # The code that raised one has loaded the module; other commands need not pay for it.
    module = sys.modules.get("milepost.admin.errors")
    return module is not None and isinstance(error, module.AdminError)


def told(ctx: click.Context, where: Endpoint, error: Any) -> CommandFailed:
    """A refusal in one line, with the exit code that goes with it."""
    codes: list[tuple[str, Exit]] = [
        ("Unreachable", Exit.CONNECT),
        # Something answers that is not a broker, or not the one that was meant.
        ("BadAnswer", Exit.CONNECT),
        ("Unauthorized", Exit.AUTH),
        ("Forbidden", Exit.AUTH),
        ("Missing", Exit.NOT_FOUND),
        ("Conflict", Exit.CONFLICT),
        ("PreconditionFailed", Exit.CONFLICT),
        ("InvalidRequest", Exit.USAGE),
        ("Refused", Exit.USAGE),
    ]
    errors = importlib.import_module("milepost.admin.errors")
    code = next(
        (code for name, code in codes if isinstance(error, getattr(errors, name))), Exit.FAILED
    )
    if code in (Exit.AUTH, Exit.CONFLICT) and "does not exist" in error.reason:
        code = Exit.NOT_FOUND  # Pulsar answers 403 or 412 for a cluster that is not there
    what = ctx.command_path.removeprefix("milepost ")
    objects = [str(ctx.params[name]) for name in _OBJECTS if ctx.params.get(name)]
    line = f"{' '.join([what, *objects])}: {error.reason}"
    step = _next_step(code, ctx, where, error)
    return CommandFailed(f"{line}; {step}" if step else line, code)


def _next_step(code: Exit, ctx: click.Context, where: Endpoint, error: AdminError) -> str:
    topic = str(ctx.params.get("topic") or "")
    if code is Exit.CONNECT:
        return connect_step(error.reason, "--admin-url")
    if code is Exit.AUTH:
        if error.status == 401:
            known = where.token or where.token_file or where.user
            return "get a new token" if known else "say who you are with --token or a context"
        if ctx.info_name == "progress" and not (topic or ctx.params.get("namespace")):
            return "name a topic (-t) or a namespace (-n) of yours, or ask an administrator"
        return "ask an administrator for the right"
    if "/milepost/v1/" in error.request and error.reason == "status 404 without a reason":
        return "Apache Pulsar does not have this call"
    if error.reason.startswith(("there is nothing at /", "Method Not Allowed")):
        return "this broker does not have this call"
    if " is partitioned" in error.reason:
        return _of_a_partition(ctx, topic, error.reason)
    if code is Exit.NOT_FOUND:
        return _where_to_look(ctx, topic, error.reason)
    if (
        code is Exit.CONFLICT
        and ctx.info_name in _DELETING
        and "not partitioned" not in error.reason
    ):
        return _what_is_in_the_way(ctx)
    if code is Exit.FAILED:
        return f"the log of the broker at {error.url} has more"
    return ""


def _what_is_in_the_way(ctx: click.Context) -> str:
    if namespace := ctx.params.get("namespace"):
        return f"delete what `milepost namespaces topics {namespace}` shows first"
    if tenant := ctx.params.get("tenant"):
        return f"delete what `milepost namespaces list {tenant}` shows first"
    return "close what uses it, or say --force"


def _of_a_partition(ctx: click.Context, topic: str, reason: str) -> str:
    """What was asked of a whole topic may be another command's, or each partition's own."""
    group = ctx.parent.command if ctx.parent is not None else None
    if isinstance(group, click.Group):
        for whole in (f"partitioned-{ctx.info_name}", f"{ctx.info_name}-partitioned-topic"):
            if whole in group.list_commands(ctx):
                return f"`milepost topics {whole} {topic}` is for the whole topic"
    # Milepost's own reason says so.
    return "" if "-partition-" in reason else f"name one of them, as {topic}-partition-0"


def _where_to_look(ctx: click.Context, topic: str, reason: str) -> str:
    from milepost.errors import InvalidInput
    from milepost.positions.names import TopicName

    if reason.startswith(("persistent://", "non-persistent://")):
        return ""  # the topic is there, and the reason says what it has
    if topic and ctx.params.get("index") is not None:
        return f"`milepost topics last-message-id {topic}` shows the end"
    if topic and ctx.params.get("subscription") and "subscription" in reason.lower():
        return f"`milepost topics subscriptions {topic}` shows what there is"
    if topic:
        try:
            return f"`milepost topics list {TopicName.parse(topic).namespace}` shows what there is"
        except InvalidInput:
            return ""
    namespace = ctx.params.get("namespace")
    if namespace and "tenant" not in reason.lower():
        tenant = str(namespace).partition("/")[0]
        return f"`milepost namespaces list {tenant}` shows what there is"
    if namespace or ctx.params.get("tenant"):
        return "`milepost tenants list` shows what there is"
    return ""
