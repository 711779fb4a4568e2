"""What is gone of a ledger, told to people."""

from __future__ import annotations

from milepost.storage.ledgers.loss import Loss, Shortage


def test_a_loss_names_its_messages() -> None:
    loss = Loss(7, 3, 5, str(Shortage("ledgers/7", 10, 20)), 0)
    assert loss.messages == 2
    assert str(loss) == (
        "messages [3, 5) are lost: ledgers/7: 10 bytes are left of the 20 that were synced"
    )
