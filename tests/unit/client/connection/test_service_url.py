"""Service URLs, good and bad."""

from __future__ import annotations

from typing import Any

import pytest

from milepost.client.connection.service_url import ServiceUrl
from milepost.errors import InvalidInput


@pytest.mark.parametrize(
    ("text", "is_tls", "hosts"),
    [
        ("pulsar://localhost:6650", False, (("localhost", 6650),)),
        ("pulsar://a,b:7,c/", False, (("a", 6650), ("b", 7), ("c", 6650))),
        ("pulsar+ssl://broker.example", True, (("broker.example", 6651),)),
        ("pulsar://[::1]:6650", False, (("::1", 6650),)),
        (" pulsar://x ", False, (("x", 6650),)),
    ],
)
def test_a_url_is_read(text: str, is_tls: bool, hosts: Any) -> None:
    assert ServiceUrl.parse(text)[1:] == (is_tls, hosts)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "localhost:6650",
        "http://localhost:8080",
        "pulsar://",
        "pulsar://a:0",
        "pulsar://a:65536",
        "pulsar://a,,b",
        "pulsar://a:b",
        "pulsar://user@host",
        None,
        7,
    ],
)
def test_what_is_none_is_refused(text: Any) -> None:
    with pytest.raises(InvalidInput, match="service URL"):
        ServiceUrl.parse(text)
