"""`milepost migrate`: topics of another broker, with everything that belongs to them.

    milepost migrate http://pulsar:8080 http://milepost:8080 -n shop/eu --dry-run
    milepost migrate old new -t shop/eu/orders

Both sides are named by a context, or by the address of the HTTP or the binary port. Everything that can be
refused is asked before the first write. What was copied is read again from both sides before subscriptions
are placed and policies are set.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import click

from milepost.cli.bars import bar
from milepost.cli.connection.contexts import load_contexts
from milepost.cli.connection.offers import OfferedContext
from milepost.cli.connection.remote import told
from milepost.cli.exits import CommandFailed, Exit
from milepost.cli.figures import short_topic
from milepost.cli.output import note, output_option, show_rows
from milepost.client.connection.endpoint import Endpoint

if TYPE_CHECKING:
    from milepost.cli.migrate.comparing import Compared
    from milepost.cli.migrate.copying import Copied, Watcher
    from milepost.cli.migrate.plan import NamespacePlan, PartitionPlan, Plan, TopicPlan
    from milepost.cli.migrate.side import Side

_SCHEMES = ("http://", "https://", "pulsar://", "pulsar+ssl://")
TO_PULSAR = (
    "TO is an Apache Pulsar: it numbers messages itself, if at all, and a batch of which single messages are "
    "acked comes again as a whole"
)


@click.command()
@click.argument("source", metavar="FROM", type=OfferedContext())
@click.argument("target", metavar="TO", type=OfferedContext())
@click.option(
    "-n",
    "--namespace",
    "namespaces",
    multiple=True,
    metavar="TENANT/NAMESPACE",
    help="All topics of a namespace, with its policies. May be repeated.",
)
@click.option(
    "-t", "--topic", "topics", multiple=True, metavar="TOPIC", help="One topic. May be repeated."
)
@click.option("--dry-run", is_flag=True, help="Say what would be done, and what stands against it.")
def migrate(
    source: str, target: str, namespaces: tuple[str, ...], topics: tuple[str, ...], dry_run: bool
) -> int:
    """Copy topics with all that belongs to them from FROM to TO, exactly once, and compare both.

    FROM and TO are a Milepost or an Apache Pulsar each: a context, or the address of the HTTP or binary
    port. Without -n and -t everything is copied. A run that was interrupted is run again: it goes on where
    the target ends. Ends with 7 if the sides differ.
    """
    from milepost.admin import AdminError
    from milepost.cli.messages.messaging_client import run

    here, there = _endpoint(source), _endpoint(target)
    if here.http_url == there.http_url:
        raise CommandFailed(f"FROM and TO are the same broker, {here.http_url}", Exit.USAGE)
    try:
        return run(_migrate(here, there, namespaces, topics, dry_run))
    except AdminError as error:
        is_source = urlsplit(error.url).netloc in here.http_url.partition("://")[2].split(",")
        word, where = ("source", here) if is_source else ("target", there)
        failed = told(click.get_current_context(), where, error)
        raise CommandFailed(f"the {word} {where.http_url}: {failed}", failed.code) from None


migrate.params.append(output_option())


def _endpoint(text: str) -> Endpoint:
    """The broker that a word of the command line names."""
    if text.startswith(_SCHEMES[:2]):
        return Endpoint(admin_url=text)
    if text.startswith(_SCHEMES[2:]):
        return Endpoint(url=text)
    return Endpoint(**load_contexts().get(text))


@dataclass
class _Line:
    """What the report says of a partition."""

    part: PartitionPlan
    copied: Copied
    compared: Compared
    fault: str
    """What is not the same, in words; empty if all is."""


async def _migrate(
    here: Endpoint,
    there: Endpoint,
    namespaces: Sequence[str],
    topics: Sequence[str],
    is_dry: bool,
) -> int:
    from milepost.cli.migrate.plan import make_plan
    from milepost.cli.migrate.side import Side

    async with Side("source", here) as source, Side("target", there) as target:
        with bar("looking at topics") as show:
            plan = await make_plan(source, target, namespaces, topics, show)
        for text in plan.left_out:
            note(f"left out: {text}")
        if not target.is_milepost:
            note(TO_PULSAR)
        if is_dry:
            _show_plan(plan)
        for text in plan.refusals:
            note(f"refused: {text}")
        if plan.refusals:
            count = len(plan.refusals)
            what = "one reason stands" if count == 1 else f"{count} reasons stand"
            raise CommandFailed(f"{what} against it; nothing was written", Exit.CONFLICT)
        return Exit.OK if is_dry else await _carry_out(source, target, plan)


def _show_plan(plan: Plan) -> None:
    for tenant in plan.tenants:
        note(f"would create tenant {tenant}")
    for namespace in plan.namespaces:
        if namespace.is_new:
            note(f"would create namespace {namespace.name}")
        if namespace.policies:
            note(f"would set {', '.join(sorted(namespace.policies))} of namespace {namespace.name}")
    rows = [
        (
            short_topic(one.name),
            one.partitions,
            one.entries,
            one.held,
            len(one.schemas),
            len(one.subscriptions),
            sorted(one.policies),
            "refused" if one.refusals else "create" if one.is_new else "go on",
        )
        for one in plan.topics
    ]
    columns = ("topic", "partitions", "entries", "held", "schemas", "subscriptions", "policies")
    show_rows((*columns, "action"), rows)


async def _carry_out(source: Side, target: Side, plan: Plan) -> int:
    from milepost.cli.migrate.plan import each

    await _create_namespaces(target, plan)
    total = 2 * sum(one.entries for one in plan.topics)
    note(
        f"{_count(len(plan.topics), 'topic', 'topics')} with {_count(total // 2, 'entry', 'entries')}. "
        "You may interrupt this: the same command goes on where it stopped."
    )
    lines: list[_Line] = []
    with bar("copying and comparing") as show:
        count = 0

        def done(more: int) -> None:
            nonlocal count
            count += more
            show(count, max(total, count))

        done(0)

        async def work(topic: TopicPlan) -> list[_Line]:
            return await _topic(source, target, topic, done)

        for found in await each(plan.topics, work):
            lines += found
    if not any(one.fault for one in lines):
        for namespace in plan.namespaces:
            await _finish_namespace(target, namespace)
    _report(lines)
    faults = [one for one in lines if one.fault]
    if again := sum(one.compared.again for one in lines):
        note(f"{again} acked messages of batches come again in the target, an Apache Pulsar")
    for one in faults:
        note(f"differs: {one.part.name}: {one.fault}")
    return Exit.DATA if faults else Exit.OK


def _count(number: int, one: str, many: str) -> str:
    return f"{number} {one if number == 1 else many}"


async def _create_namespaces(target: Side, plan: Plan) -> None:
    for tenant in plan.tenants:
        await target.admin.create_tenant(tenant)
    for namespace in plan.namespaces:
        if namespace.is_new:
            await target.admin.create_namespace(namespace.name)


async def _finish_namespace(target: Side, namespace: NamespacePlan) -> None:
    from milepost.broker.policies.policy import Level
    from milepost.cli.migrate.policies import set_policies

    await set_policies(target.admin, Level.NAMESPACE, namespace.name, namespace.policies)
    for role, actions in namespace.permissions.items():
        await target.admin.grant_namespace_permission(namespace.name, role, actions)


async def _topic(source: Side, target: Side, topic: TopicPlan, done: Watcher) -> list[_Line]:
    """A topic with its partitions, from the first write to the last."""
    from milepost.broker.policies.policy import Level
    from milepost.cli.migrate.policies import hold, set_policies, wait_for_hold

    await _create_topic(target, topic)
    await hold(target.admin, topic.name)
    if not target.is_milepost:
        await wait_for_hold(target.admin, topic.name, target.timeout_s)
    for schema in topic.schemas:
        await target.admin.create_schema(
            topic.name,
            {
                "type": schema["type"],
                "schema": schema["data"],
                "properties": schema.get("properties") or {},
            },
        )
    lines = [await _partition(source, target, part, done) for part in topic.parts]
    if not any(one.fault for one in lines):
        await set_policies(target.admin, Level.TOPIC, topic.name, topic.policies)
        for role, actions in topic.permissions.items():
            await target.admin.grant_topic_permission(topic.name, role, actions)
    return lines


async def _create_topic(target: Side, topic: TopicPlan) -> None:
    if topic.is_new and topic.partitions:
        await target.admin.create_partitioned_topic(
            topic.name, topic.partitions, topic.properties or None
        )
    elif topic.is_new:
        await target.admin.create_topic(topic.name, topic.properties or None)
    if topic.partitions:
        await target.admin.create_missed_partitions(topic.name)


async def _partition(source: Side, target: Side, part: PartitionPlan, done: Watcher) -> _Line:
    from milepost.cli.migrate.comparing import Compared, compare
    from milepost.cli.migrate.copying import Copied, copy
    from milepost.cli.migrate.plan import read_standings
    from milepost.cli.migrate.reading import EntryReader
    from milepost.positions.ranges import IndexRanges

    if not part.is_there:
        return _Line(part, Copied(0, 0, None), Compared(0, 0, "", "", {}, IndexRanges()), "")
    if part.is_terminated_there:
        async with EntryReader(source, part.name) as reader:
            copied = Copied(0, 0, reader.last)
    else:
        copied = await copy(source, target, part.name, part.checkpoint, done)
    standings = await read_standings(source, part)
    compared = await compare(source, target, part.name, copied.until, standings, done)
    if compared.difference:
        return _Line(part, copied, compared, compared.difference)
    fault = await _place_all(target, part, compared)
    if part.is_terminated and not part.is_terminated_there and not fault:
        await target.admin.terminate_topic(part.name)
    return _Line(part, copied, compared, fault)


async def _place_all(target: Side, part: PartitionPlan, compared: Compared) -> str:
    """Place the subscriptions of a partition, and look where they are then; what is wrong, in words."""
    from milepost.cli.migrate.standings import acked_indexes, place

    for name, acks in compared.acks.items():
        await place(target, part.name, name, acks, part.subscriptions[name])
        acked, first = await acked_indexes(target, part.name, name)
        for more, less in ((acked, acks.expected), (acks.expected, acked)):
            wrong = more.copy()
            wrong.discard_all(less)
            wrong.discard(0, first)
            # A chunk is acked with the last one of its message, and not by itself.
            wrong.discard_all(compared.chunks)
            if wrong:
                place_of = "index" if target.is_milepost else "entry"
                return f"subscription {name}: {place_of} {wrong.first} is acked on one side only"
    return ""


def _report(lines: Sequence[_Line]) -> None:
    rows = [
        (
            short_topic(one.part.name),
            one.compared.entries,
            one.compared.messages,
            one.copied.messages,
            len(one.compared.acks),
            one.compared.checksum[:16],
            "differs" if one.fault else "same",
        )
        for one in lines
    ]
    columns = ("topic", "entries", "messages", "copied", "subscriptions", "sha256", "sides")
    show_rows(columns, rows)
