"""Addresses of buckets: what is none is refused, with what is wrong, and without what is secret."""

from __future__ import annotations

import pytest

from milepost.broker.settings.settings import Settings
from milepost.errors import BucketUnusable, InvalidSetting
from milepost.storage.bucket.address import check_environment, check_url
from milepost.storage.bucket.stores import open_objects


@pytest.mark.parametrize(
    "url",
    ["s3://name", "s3://name/", "s3://name/a/b/", "gs://n/p", "az://c/p", "file:///srv/../x"],
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
        ("s3://key:secret@b//p", "credentials belong into the environment"),
        ("s3://b//p", "the prefix has an empty part, '.' or '..': expected s3://name/prefix"),
        ("s3://b//", "the prefix has an empty part"),
        ("s3://b/../other", "the prefix has an empty part, '.' or '..'"),
        ("gs://b/a/%2e%2e/c", "the prefix has an empty part, '.' or '..'"),
        ("az://b/./c", "the prefix has an empty part, '.' or '..'"),
        ("file:///a?b=c", "bucket = file:///a…: only a bucket and a prefix"),
        ("s3://[x", "Invalid IPv6 URL"),
        ("file:///a\0b", "a name with a zero byte"),
        ("file:///a%00b", "a name with a zero byte"),
    ],
)
def test_what_is_no_address_is_refused(url: str, why: str) -> None:
    with pytest.raises(InvalidSetting, match=why) as caught:
        check_url(url)
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize(
    "endpoint", ["http://127.0.0.1:9000", "https://s3.example.org/a/path", "HTTP://[::1]:9000/"]
)
def test_endpoints_of_stores_are_taken(endpoint: str) -> None:
    assert Settings(bucket="s3://b", bucket_endpoint=endpoint).bucket_endpoint == endpoint
    check_environment("s3://b", {"AWS_ENDPOINT_URL": endpoint})


@pytest.mark.parametrize(
    ("endpoint", "why"),
    [
        ("127.0.0.1:9000", "expected http:// or https://, a host"),
        ("store:9000", "expected http:// or https://, a host"),
        ("ftp://store", "expected http:// or https://, a host"),
        ("http://", "expected http:// or https://, a host"),
        ("http://store:99999", "Port out of range"),
        ("http://store:x", "Port could not be cast"),
        ("http://[x", "Invalid IPv6 URL"),
        ("http://store/?a=b", "expected http:// or https://, a host"),
        ("http://st ore", "it has blanks"),
        ("http://store\n", "(it has blanks|expected text)"),
        ("http://key:geheim@store", "credentials belong into the environment"),
    ],
)
def test_what_is_no_endpoint_is_refused(endpoint: str, why: str) -> None:
    """By the settings, by commands, and where the store's users may have it: obstore would panic."""
    for name, ask in (
        ("bucket_endpoint", lambda: Settings(bucket="s3://b", bucket_endpoint=endpoint)),
        ("bucket_endpoint", lambda: open_objects("s3://b", endpoint=endpoint)),
        ("AWS_ENDPOINT_URL", lambda: check_environment("s3://b", {"AWS_ENDPOINT_URL": endpoint})),
    ):
        with pytest.raises(InvalidSetting, match=f"{name} = .*{why}") as caught:
            ask()
        assert "geheim" not in str(caught.value)
        assert "\n" not in str(caught.value)


@pytest.mark.parametrize("region", ["eu west", "eu/1", "ü"])
def test_what_is_no_region_is_refused(region: str) -> None:
    with pytest.raises(InvalidSetting, match="expected a name of letters, digits"):
        Settings(bucket="s3://b", bucket_region=region)
    with pytest.raises(InvalidSetting, match="expected a name of letters, digits"):
        open_objects("s3://b", region=region)


def test_a_key_with_a_line_break_is_refused_by_the_name_of_its_variable(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Files of secrets often end with one."""
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "geheim\n")
    with pytest.raises(InvalidSetting, match="variable AWS_ACCESS_KEY_ID has a line br") as caught:
        open_objects("s3://b")
    assert "geheim" not in str(caught.value)


def test_a_store_that_is_not_described_is_refused_with_what_to_set(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("AZURE_STORAGE_ACCOUNT_NAME", raising=False)
    with pytest.raises(BucketUnusable, match=r"az://c/p: .* says of the store .AZURE_STORAGE_ACC"):
        open_objects("az://c/p")
