"""The address of a bucket: what may be one, and what is wrong with it otherwise."""

from __future__ import annotations

from typing import Final
from urllib.parse import urlsplit

from milepost.errors import InvalidSetting

SCHEMES: Final = ("s3", "gs", "az", "file")


def check_url(url: str) -> None:
    """`InvalidSetting` unless it is the address of a bucket."""
    try:
        parts = urlsplit(url)
    except ValueError as failure:
        raise InvalidSetting(f"bucket = {url}: {failure}") from failure
    if "\0" in url:
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
            f"bucket = {parts.scheme}://{parts.hostname}{parts.path}…: only a bucket and a prefix; "
            "credentials belong into the environment"
        )
