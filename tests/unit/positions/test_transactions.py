"""Ids of transactions: two numbers, and upstream's text for them."""

from __future__ import annotations

from milepost.positions import TxnId


def test_an_id_is_printed_as_upstream_prints_it() -> None:
    assert str(TxnId(3, 41)) == "(3,41)"


def test_ids_are_in_the_order_in_which_a_coordinator_opened_them() -> None:
    assert sorted([TxnId(1, 0), TxnId(0, 10), TxnId(0, 9)]) == [
        TxnId(0, 9),
        TxnId(0, 10),
        TxnId(1, 0),
    ]
