"""`milepost transactions` as in `pulsar-admin`."""

from __future__ import annotations

import json

import pytest
from unit.cli.conftest import Line

B = "/admin/v3/transactions"
T = "public/default/t"

OPEN = {
    "txnId": "(0,17)",
    "status": "OPEN",
    "openTimestamp": 1_794_814_823_207,
    "timeoutAt": 60_000,
    "owner": "billing",
    "producedPartitions": {"persistent://public/default/t": {"startPosition": "57:1"}},
    "ackedPartitions": {"persistent://public/default/u": {"s": {"messages": 2}}},
}


@pytest.mark.parametrize(
    ("words", "asked"),
    [
        ("coordinator-stats", "GET {B}/coordinatorStats"),
        ("coordinator-stats -c 0", "GET {B}/coordinatorStats?coordinatorId=0"),
        ("coordinator-internal-stats -c 0", "GET {B}/coordinatorInternalStats/0?metadata=false"),
        ("slow-transactions -t 5m", "GET {B}/slowTransactions/300000"),
        ("slow-transactions -c 0 -t 1s", "GET {B}/slowTransactions/1000?coordinatorId=0"),
        ("transaction-metadata -m 0 -l 17", "GET {B}/transactionMetadata/0/17"),
        (
            "transaction-in-buffer-stats -m 0 -l 17 -t t",
            "GET {B}/transactionInBufferStats/{T}/0/17",
        ),
        (
            "transaction-in-pending-ack-stats -m 0 -l 17 -t t -s s",
            "GET {B}/transactionInPendingAckStats/{T}/s/0/17",
        ),
        (
            "transaction-buffer-stats -t t -l",
            "GET {B}/transactionBufferStats/{T}?lowWaterMarks=true&segmentStats=false",
        ),
        (
            "buffer-snapshot-internal-stats -t t",
            "GET {B}/transactionBufferInternalStats/{T}?metadata=false",
        ),
        ("pending-ack-stats -t t -s s", "GET {B}/pendingAckStats/{T}/s?lowWaterMarks=false"),
        (
            "pending-ack-internal-stats -t t --subscription-name s",
            "GET {B}/pendingAckInternalStats/{T}/s?metadata=false",
        ),
        (
            "position-stats-in-pending-ack -t t -s s -l 1 -e 2 -b 3",
            "GET {B}/positionStatsInPendingAck/{T}/s/1/2?batchIndex=3",
        ),
        ("abort-transaction -m 0 -l 17", "POST {B}/abortTransaction/0/17"),
        ("scale-transactionCoordinators -r 4", "POST {B}/transactionCoordinator/replicas"),
    ],
)
def test_each_command_asks_upstreams_path(line: Line, words: str, asked: str) -> None:
    for first in (["transactions"], ["admin", "transactions"]):
        line(*first, *words.split(), answers=({},))
        assert (line.code, line.asked) == (0, [asked.format(B=B, T=T)]), line.err


def test_slow_ones_are_a_table_or_json(line: Line) -> None:
    words = ("transactions", "slow-transactions", "-t", "1s")
    assert json.loads(line(*words, answers=({"(0,17)": OPEN},))) == {"(0,17)": OPEN}
    shown = line("-o", "csv", *words, answers=({"(0,17)": OPEN},)).splitlines()
    assert shown[0] == "transaction,status,owner,opened,timeout,writes to,acks of"
    assert shown[1].startswith('"(0,17)",OPEN,billing,1794814823207,60000,persistent://')
    assert "persistent://public/default/u s" in shown[1]


def test_coordinators_are_a_table_or_json(line: Line) -> None:
    found = [{"id": 0, "brokerServiceUrl": "pulsar://localhost:6650"}]
    words = ("transactions", "coordinators-list")
    assert json.loads(line(*words, answers=(found,))) == found
    assert line("-o", "csv", *words, answers=(found,)) == "id,url\n0,pulsar://localhost:6650\n"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("transaction-metadata -m 0", "--least-sig-bits"),
        ("abort-transaction -l 17", "--most-sig-bits"),
        ("abort-transaction -m x -l 1", "x"),
        ("abort-transaction -m 0 -l 9223372036854775808", "9223372036854775808"),
        ("slow-transactions", "--time"),
        ("slow-transactions -t soon", "soon"),
        ("slow-transactions -t -5s", "-5"),
        ("pending-ack-stats -t t", "--sub-name"),
        ("transaction-buffer-stats", "--topic"),
        ("transaction-buffer-stats -t non-persistent://a/b/c", "not persistent"),
    ],
)
def test_missing_and_bad_words_are_named(line: Line, words: str, said: str) -> None:
    line("transactions", *words.split())
    assert line.code == 2, line.err
    assert said in line.err
    assert line.asked == []
