"""`milepost bucket check`: what it tried, whose the bucket is, and one line for what cannot be used."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from stage.s3 import S3Server
from unit.cli.conftest import Line

from milepost.storage.bucket.manifest import first_manifest
from milepost.storage.cluster.document import ClusterDocument


def test_a_good_bucket_passes_and_is_left_as_it_was(line: Line, tmp_path: Path) -> None:
    bucket = tmp_path / "bucket"
    bucket.mkdir()
    (bucket / "manifest").write_bytes(first_manifest("acme", "broker-1", "00").encode())
    rows = json.loads(line("--output", "json", "bucket", "check", bucket.as_uri()))
    assert line.code == 0
    assert {row["good"] for row in rows} == {"yes"}
    assert len(rows) == 6
    assert "data of cluster acme, in epoch 1 of broker broker-1" in line.err
    left = {path.relative_to(bucket).as_posix() for path in bucket.rglob("*") if path.is_file()}
    assert left == {"manifest", ".lock"}


def test_the_bucket_of_a_cluster_is_told_from_one_that_is_free(line: Line, tmp_path: Path) -> None:
    (tmp_path / "cluster").write_bytes(ClusterDocument("acme", 8, "00" * 32).encode())
    line("bucket", "check", tmp_path.as_uri())
    assert line.code == 0
    assert line.err == "the bucket holds the data of cluster acme, in 8 shards\n"


@pytest.mark.parametrize("key", ["manifest", "cluster"])
def test_what_was_tried_is_shown_of_a_bucket_of_a_newer_release(
    line: Line, tmp_path: Path, key: str
) -> None:
    (tmp_path / key).write_text('{"format": 2}')
    rows = json.loads(line("--output", "json", "bucket", "check", tmp_path.as_uri()))
    assert {row["good"] for row in rows} == {"yes"}
    assert line.code == 7
    assert f"{key} has format 2" in line.err.replace("`", "")


def test_what_is_no_bucket_is_told_in_one_line(line: Line, tmp_path: Path) -> None:
    line("bucket", "check", "ftp://x")
    assert line.code == 2
    assert line.err == (
        "milepost: bucket = ftp://x: expected an address that begins with one of s3://, gs://, "
        "az://, file://\n"
    )
    (tmp_path / "file").write_bytes(b"")
    line("bucket", "check", (tmp_path / "file" / "b").as_uri())
    assert line.code == 8
    assert "the folder cannot be used" in line.err


def test_a_store_that_cannot_be_reached_is_told(line: Line) -> None:
    line("bucket", "check", "s3://name/prefix", "--endpoint", "http://127.0.0.1:1", "--region", "r")
    assert line.code == 8
    assert "s3://name/prefix cannot be used" in line.err


def test_a_bucket_that_is_not_permitted_is_told_once_with_what_to_do(
    line: Line, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "a")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "b")
    with S3Server() as store:
        store.refusal = lambda method, path: (403, "InvalidAccessKeyId")
        rows = json.loads(
            line("--output", "json", "bucket", "check", "s3://b/p", "--endpoint", store.url)
        )
    assert line.code == 8
    assert [row["good"] for row in rows] == ["no"]
    assert "403 Forbidden, InvalidAccessKeyId: no; the store does not take the cred" in line.err
    assert line.err.count("\n") == 1
