"""The file that says who serves which shard."""

from __future__ import annotations

from pathlib import Path

from milepost.storage.cluster import owners
from milepost.storage.cluster.notice import Notice, Seat
from milepost.storage.cluster.owners import OwnersFile, Served

ONE = Notice("one", "h", "m", 1, 1, 9, "", "", "", False, {0: Seat(3, "h", 1, -1, 2), 1: None})
OTHER = ONE._replace(broker="other", shards={0: Seat(4, "i", 5, -1, 6)})


def test_of_two_that_serve_a_shard_the_later_claim_counts() -> None:
    for notices in ([ONE, OTHER], [OTHER, ONE]):
        assert owners.served(notices) == {0: Served("other", Seat(4, "i", 5, -1, 6))}


def test_a_file_that_was_replaced_is_read_again(tmp_path: Path) -> None:
    file = OwnersFile(tmp_path)
    assert file.served == {}
    assert file.notices == []
    owners.write(tmp_path, [ONE])
    assert file.notices == [ONE]
    assert file.served[0].broker == "one"
    owners.write(tmp_path, [ONE, OTHER])
    assert file.served[0].broker == "other"
