"""`milepost transactions`: which are open, whose, on what topics; and their abort.

milepost transactions slow-transactions -t 1m        who keeps topics waiting
milepost transactions abort-transaction -m 0 -l 17
"""

from __future__ import annotations

from typing import Any

import click

from milepost.cli.connection.connection import connection
from milepost.cli.connection.remote import RemoteCommand
from milepost.cli.groups import Group
from milepost.cli.output import chosen, show_object, show_rows
from milepost.cli.quantities import DURATION

_LONG = click.IntRange(-(2**63), 2**63 - 1)

COORDINATOR = click.option("-c", "--coordinator-id", "coordinator", type=click.IntRange(min=0))
THE_COORDINATOR = click.option(
    "-c", "--coordinator-id", "coordinator", type=click.IntRange(min=0), required=True
)
MOST = click.option(
    "-m", "--most-sig-bits", "most", type=_LONG, required=True, help="Of (0,17) the 0."
)
LEAST = click.option(
    "-l", "--least-sig-bits", "least", type=_LONG, required=True, help="Of (0,17) the 17."
)
TOPIC = click.option("-t", "--topic", required=True, help="A topic, or one partition.")
SUBSCRIPTION = click.option(
    "-s",
    "--sub-name",
    "--subscription-name",
    "subscription",
    required=True,
    help="Its name.",
)
LOW_WATER_MARKS = click.option("-l", "--low-water-mark", "low_water_marks", is_flag=True)
METADATA = click.option("-m", "--metadata", is_flag=True, hidden=True)


@click.group(cls=Group, help="Transactions: which are open, whose they are; abort one.")
def transactions() -> None:
    pass


@transactions.command("coordinators-list", cls=RemoteCommand, help="The coordinators.")
def coordinators_list() -> None:
    with connection().admin() as admin:
        found: Any = admin.list_coordinators()
    if chosen() in ("table", "csv"):
        show_rows(("id", "url"), [(one["id"], one["brokerServiceUrl"]) for one in found])
    else:
        show_object(found)


@transactions.command("coordinator-stats", cls=RemoteCommand, help="Of one, or of all.")
@COORDINATOR
def coordinator_stats(coordinator: int | None) -> None:
    with connection().admin() as admin:
        show_object(admin.get_coordinator_stats(coordinator))


@transactions.command("coordinator-internal-stats", cls=RemoteCommand, help="Its ledgers.")
@THE_COORDINATOR
@METADATA
def coordinator_internal_stats(coordinator: int, metadata: bool) -> None:
    with connection().admin() as admin:
        show_object(admin.get_coordinator_internal_stats(coordinator, metadata=metadata))


@transactions.command("slow-transactions", cls=RemoteCommand, help="Those that are open for long.")
@COORDINATOR
@click.option(
    "-t", "--time", "seconds", type=DURATION, required=True, help="For longer than: 10s, 5m, 1h."
)
def slow_transactions(coordinator: int | None, seconds: int) -> None:
    if seconds < 0:
        raise click.UsageError(f"--time is {seconds} seconds; expected 0 or more")
    with connection().admin() as admin:
        found = admin.get_slow_transactions(seconds * 1000, coordinator)
    if chosen() in ("table", "csv"):
        columns = ("transaction", "status", "owner", "opened", "timeout", "writes to", "acks of")
        show_rows(columns, [_row(one) for one in found.values()])
    else:
        show_object(found)


def _row(txn: Any) -> tuple[object, ...]:
    acked = [f"{topic} {name}" for topic, names in txn["ackedPartitions"].items() for name in names]
    return (
        txn["txnId"],
        txn["status"],
        txn.get("owner"),
        txn["openTimestamp"],
        txn["timeoutAt"],
        " ".join(txn["producedPartitions"]),
        ", ".join(acked),
    )


@transactions.command("transaction-metadata", cls=RemoteCommand, help="One that is open.")
@MOST
@LEAST
def transaction_metadata(most: int, least: int) -> None:
    with connection().admin() as admin:
        show_object(admin.get_transaction_metadata(most, least))


@transactions.command(
    "transaction-in-buffer-stats", cls=RemoteCommand, help="What one has written to a topic."
)
@MOST
@LEAST
@TOPIC
def transaction_in_buffer_stats(most: int, least: int, topic: str) -> None:
    with connection().admin() as admin:
        show_object(admin.get_transaction_in_buffer_stats(most, least, topic))


@transactions.command(
    "transaction-in-pending-ack-stats",
    cls=RemoteCommand,
    help="What one has acked on a subscription.",
)
@MOST
@LEAST
@TOPIC
@SUBSCRIPTION
def transaction_in_pending_ack_stats(most: int, least: int, topic: str, subscription: str) -> None:
    with connection().admin() as admin:
        show_object(admin.get_transaction_in_pending_ack_stats(most, least, topic, subscription))


@transactions.command(
    "transaction-buffer-stats", cls=RemoteCommand, help="Up to where a topic can be read."
)
@TOPIC
@LOW_WATER_MARKS
@click.option("-s", "--segment-stats", "with_snapshots", is_flag=True, hidden=True)
def transaction_buffer_stats(topic: str, low_water_marks: bool, with_snapshots: bool) -> None:
    with connection().admin() as admin:
        found = admin.get_transaction_buffer_stats(
            topic, low_water_marks=low_water_marks, with_snapshots=with_snapshots
        )
    show_object(found)


@transactions.command("buffer-snapshot-internal-stats", cls=RemoteCommand, help="Its ledgers.")
@TOPIC
@METADATA
def buffer_snapshot_internal_stats(topic: str, metadata: bool) -> None:
    with connection().admin() as admin:
        show_object(admin.get_transaction_buffer_internal_stats(topic, metadata=metadata))


@transactions.command("pending-ack-stats", cls=RemoteCommand, help="Acks that wait for an end.")
@TOPIC
@SUBSCRIPTION
@LOW_WATER_MARKS
def pending_ack_stats(topic: str, subscription: str, low_water_marks: bool) -> None:
    with connection().admin() as admin:
        show_object(
            admin.get_pending_ack_stats(topic, subscription, low_water_marks=low_water_marks)
        )


@transactions.command("pending-ack-internal-stats", cls=RemoteCommand, help="Their ledgers.")
@TOPIC
@SUBSCRIPTION
@METADATA
def pending_ack_internal_stats(topic: str, subscription: str, metadata: bool) -> None:
    with connection().admin() as admin:
        show_object(admin.get_pending_ack_internal_stats(topic, subscription, metadata=metadata))


@transactions.command(
    "position-stats-in-pending-ack", cls=RemoteCommand, help="Whether a message waits for an end."
)
@TOPIC
@SUBSCRIPTION
@click.option("-l", "--ledger-id", "ledger_id", type=_LONG, required=True)
@click.option("-e", "--entry-id", "entry_id", type=_LONG, required=True)
@click.option("-b", "--batch-index", "batch_index", type=click.IntRange(min=-1))
def position_stats_in_pending_ack(
    topic: str, subscription: str, ledger_id: int, entry_id: int, batch_index: int | None
) -> None:
    with connection().admin() as admin:
        found = admin.get_position_stats_in_pending_ack(
            topic, subscription, ledger_id, entry_id, batch_index
        )
    show_object(found)


@transactions.command("abort-transaction", cls=RemoteCommand, help="Abort one, of any role.")
@MOST
@LEAST
def abort_transaction(most: int, least: int) -> None:
    with connection().admin() as admin:
        admin.abort_transaction(most, least)


@transactions.command(
    "scale-transactionCoordinators", cls=RemoteCommand, help="Have more coordinators."
)
@click.option("-r", "--replicas", type=click.IntRange(min=1), required=True)
def scale_coordinators(replicas: int) -> None:
    with connection().admin() as admin:
        admin.scale_transaction_coordinators(replicas)
