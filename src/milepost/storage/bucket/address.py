"""Where a bucket is: its address, and the endpoint and region of its store. What is wrong is refused by name.

obstore ends some of these mistakes with a Rust panic: a stack trace that says nothing to people.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final
from urllib.parse import unquote, urlsplit

from milepost.errors import InvalidSetting

SCHEMES: Final = ("s3", "gs", "az", "file")
# Variables of the environment that obstore reads for an S3 store: endpoints, and what goes into headers.
_ENDPOINTS: Final = ("AWS_ENDPOINT", "AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3")
_IN_HEADERS: Final = (
    "AWS_ACCESS_KEY_ID",
    "AWS_SECRET_ACCESS_KEY",
    "AWS_SESSION_TOKEN",
    "AWS_REGION",
    "AWS_DEFAULT_REGION",
)
_REGION: Final = re.compile(r"[A-Za-z0-9._-]*")
_CONTROL: Final = re.compile(r"[\0-\x1f\x7f]")


def check_url(url: str) -> None:
    """`InvalidSetting` unless it is the address of a bucket."""
    try:
        parts = urlsplit(url)
    except ValueError as failure:
        raise InvalidSetting(f"bucket = {url}: {failure}") from failure
    if "\0" in unquote(url):
        raise InvalidSetting(f"bucket = {url!r}: a name with a zero byte")
    if parts.scheme not in SCHEMES:
        known = ", ".join(f"{scheme}://" for scheme in SCHEMES)
        raise InvalidSetting(f"bucket = {url}: expected an address that begins with one of {known}")
    if parts.scheme == "file" and (parts.netloc or not parts.path.strip("/")):
        raise InvalidSetting(f"bucket = {url}: expected file:/// and the path of a folder")
    if parts.scheme != "file" and not parts.netloc:
        raise InvalidSetting(f"bucket = {url}: it names no bucket: {parts.scheme}://name/prefix")
    if parts.query or parts.fragment or parts.username or parts.password:
        raise InvalidSetting(
            f"bucket = {parts.scheme}://{parts.hostname or ''}{parts.path}…: only a bucket and a prefix; "
            "credentials belong into the environment"
        )
    # A folder of this machine has such names; a store takes them for part of its keys, or refuses them.
    folders = unquote(parts.path).removeprefix("/").removesuffix("/").split("/")
    if parts.scheme != "file" and parts.path not in ("", "/") and {"", ".", ".."} & set(folders):
        raise InvalidSetting(
            f"bucket = {url!r}: the prefix has an empty part, '.' or '..': expected "
            f"{parts.scheme}://name/prefix"
        )


def check_endpoint(url: str, name: str = "bucket_endpoint") -> None:
    """`InvalidSetting` unless it is empty, or where a store may listen. A password in it is not repeated."""
    if not url:
        return
    written = url.rpartition("@")[2]
    expected = "expected http:// or https://, a host, and perhaps a port and a path"
    try:
        parts = urlsplit(url)
        _ = parts.port  # it is looked at when it is asked for
    except ValueError as failure:
        raise InvalidSetting(f"{name} = {written}: {failure}; {expected}") from None
    if parts.username is not None:
        raise InvalidSetting(
            f"{name} = {parts.scheme}://…@{written}: credentials belong into the environment"
        )
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.fragment:
        raise InvalidSetting(f"{name} = {written}: {expected}")
    if re.search(r"\s", url) or _CONTROL.search(url):
        raise InvalidSetting(f"{name} = {written!r}: it has blanks; {expected}")


def check_region(region: str) -> None:
    if not _REGION.fullmatch(region):
        raise InvalidSetting(
            f"bucket_region = {region!r}: expected a name of letters, digits, '-', '_' and '.', such as "
            "eu-central-1"
        )


def check_environment(url: str, environment: Mapping[str, str]) -> None:
    """`InvalidSetting` for what the store's users have in variables and cannot be. Values may be secret."""
    if urlsplit(url).scheme != "s3":
        return
    for name in _ENDPOINTS:
        check_endpoint(environment.get(name, ""), name)
    for name in _IN_HEADERS:
        if _CONTROL.search(environment.get(name, "")):
            raise InvalidSetting(
                f"the variable {name} has a line break or another control character: set it without"
            )
