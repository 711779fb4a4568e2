"""Addresses of buckets: what is none is refused, with what is wrong, and without what is secret."""

from __future__ import annotations

import pytest

from milepost.broker.settings.settings import Settings
from milepost.errors import InvalidSetting
from milepost.storage.bucket.address import check_url


@pytest.mark.parametrize(
    "url", ["s3://name", "s3://name/a/b", "gs://n/p", "az://c/p", "file:///srv/x"]
)
def test_addresses_of_buckets_are_taken(url: str) -> None:
    assert Settings(bucket=url).bucket == url


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("bucket", "expected an address that begins with one of s3://"),
        ("http://x/y", "expected an address that begins with one of s3://"),
        ("s3://", "it names no bucket: s3://name/prefix"),
        ("file://host/x", "expected file:/// and the path of a folder"),
        ("file:///", "expected file:/// and the path of a folder"),
        ("s3://key:secret@b/p", "credentials belong into the environment"),
        ("s3://[x", "Invalid IPv6 URL"),
        ("file:///a\0b", "a name with a zero byte"),
    ],
)
def test_what_is_no_address_is_refused(url: str, why: str) -> None:
    with pytest.raises(InvalidSetting, match=why) as caught:
        check_url(url)
    assert "secret" not in str(caught.value)
