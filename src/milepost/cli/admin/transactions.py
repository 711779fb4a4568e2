"""`milepost transactions`: which are open, whose, on what topics; and their abort.

milepost transactions slow-transactions -t 1m        who keeps topics waiting
milepost transactions abort-transaction -m 0 -l 17
"""

from __future__ import annotations

from typing import Any

import click

from milepost.cli.admin.calls import Ask, Call
from milepost.cli.connection.connection import connection
from milepost.cli.connection.remote import RemoteCommand
from milepost.cli.groups import LazyGroup, Rows, table_of
from milepost.cli.output import chosen, show_object, show_rows
from milepost.cli.quantities import DURATION

_LONG = click.IntRange(-(2**63), 2**63 - 1)

COORDINATOR = click.option(
    "-c",
    "--coordinator-id",
    "coordinator",
    type=click.IntRange(min=0),
    help="The number of the coordinator.",
)
THE_COORDINATOR = click.option(
    "-c",
    "--coordinator-id",
    "coordinator",
    type=click.IntRange(min=0),
    required=True,
    help="The number of the coordinator.",
)
MOST = click.option(
    "-m", "--most-sig-bits", "most", type=_LONG, required=True, help="Of (0,17) the 0."
)
LEAST = click.option(
    "-l", "--least-sig-bits", "least", type=_LONG, required=True, help="Of (0,17) the 17."
)
TOPIC = click.option("-t", "--topic", required=True, help="A topic, or one partition.")
SUBSCRIPTION = click.option(
    "-s", "--sub-name", "--subscription-name", "subscription", required=True, help="Its name."
)
LOW_WATER_MARKS = click.option(
    "-l",
    "--low-water-mark",
    "low_water_marks",
    is_flag=True,
    help="With the low water marks of coordinators.",
)
METADATA = click.option("-m", "--metadata", is_flag=True, hidden=True)


def _show_coordinators(found: Any) -> None:
    if chosen() in ("table", "csv"):
        show_rows(("id", "url"), [(one["id"], one["brokerServiceUrl"]) for one in found])
    else:
        show_object(found)


@click.command(cls=RemoteCommand, help="Those that are open for long.")
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


_TABLE: Rows = {
    "coordinators-list": Ask("list_coordinators", "The coordinators.", show=_show_coordinators),
    "coordinator-stats": Ask("get_coordinator_stats", "Of one, or of all.", COORDINATOR),
    "coordinator-internal-stats": Ask(
        "get_coordinator_internal_stats", "Its ledgers.", THE_COORDINATOR, METADATA
    ),
    "slow-transactions": "Those that are open for long.",
    "transaction-metadata": Ask("get_transaction_metadata", "One that is open.", MOST, LEAST),
    "transaction-in-buffer-stats": Ask(
        "get_transaction_in_buffer_stats", "What one has written to a topic.", MOST, LEAST, TOPIC
    ),
    "transaction-in-pending-ack-stats": Ask(
        "get_transaction_in_pending_ack_stats",
        "What one has acked on a subscription.",
        MOST,
        LEAST,
        TOPIC,
        SUBSCRIPTION,
    ),
    "transaction-buffer-stats": Ask(
        "get_transaction_buffer_stats",
        "Up to where a topic can be read.",
        TOPIC,
        LOW_WATER_MARKS,
        click.option("-s", "--segment-stats", "with_snapshots", is_flag=True, hidden=True),
    ),
    "buffer-snapshot-internal-stats": Ask(
        "get_transaction_buffer_internal_stats", "Its ledgers.", TOPIC, METADATA
    ),
    "pending-ack-stats": Ask(
        "get_pending_ack_stats", "Acks that wait for an end.", TOPIC, SUBSCRIPTION, LOW_WATER_MARKS
    ),
    "pending-ack-internal-stats": Ask(
        "get_pending_ack_internal_stats", "Their ledgers.", TOPIC, SUBSCRIPTION, METADATA
    ),
    "position-stats-in-pending-ack": Ask(
        "get_position_stats_in_pending_ack",
        "Whether a message waits for an end.",
        TOPIC,
        SUBSCRIPTION,
        click.option(
            "-l",
            "--ledger-id",
            "ledger_id",
            type=_LONG,
            required=True,
            help="The ledger of its id.",
        ),
        click.option(
            "-e", "--entry-id", "entry_id", type=_LONG, required=True, help="The entry of its id."
        ),
        click.option(
            "-b",
            "--batch-index",
            "batch_index",
            type=click.IntRange(min=-1),
            help="Its place in the batch.",
        ),
    ),
    "abort-transaction": Call("abort_transaction", "Abort one, of any role.", MOST, LEAST),
    "scale-transactionCoordinators": Call(
        "scale_transaction_coordinators",
        "Have more coordinators.",
        click.option(
            "-r", "--replicas", type=click.IntRange(min=1), required=True, help="How many."
        ),
    ),
}

transactions = LazyGroup(
    "transactions",
    table=table_of({__name__: _TABLE}),
    help="Transactions: which are open, whose they are; abort one.",
)
