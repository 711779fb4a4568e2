"""What a bucket is by its keys. What is found in it is tried in `unit/cli/server/test_verify_bucket.py`."""

from __future__ import annotations

from milepost.storage.bucket.upkeep.audit import sorted_out


def test_a_bucket_without_anything_of_milepost_is_none() -> None:
    assert sorted_out({}) is None
    assert sorted_out({"readme.txt": 3, "board/x": 3, "manifests/x": 1}) is None


def test_keys_belong_to_the_one_kind_of_bucket_or_the_other() -> None:
    alone = sorted_out({"manifest": 1, "journal/x": 1, "board/b": 1, "registry": 1, "check/1": 1})
    assert alone is not None
    assert (alone.is_cluster, alone.leftovers, alone.foreign) == (False, ["check/1"], ["registry"])
    several = sorted_out({"cluster": 1, "registry": 1, "shards/0/manifest": 1, "manifest": 1})
    assert several is not None
    assert (several.is_cluster, several.leftovers, several.foreign) == (True, [], ["manifest"])
