"""Advertised listeners: the setting, and the address that a client is told."""

from __future__ import annotations

import pytest

from milepost.broker.settings import advertised_listeners
from milepost.broker.settings.settings import Settings
from milepost.errors import InvalidSetting, ServiceNotReady

TEXT = (
    "inside:pulsar://10.0.0.7:6650, inside:pulsar+ssl://10.0.0.7:6651,"
    "outside:pulsar+ssl://mq.example.com:443,outside:https://mq.example.com:8443/"
)


def test_a_listener_has_an_address_for_each_scheme() -> None:
    assert advertised_listeners.parse(TEXT) == {
        "inside": {"pulsar": "pulsar://10.0.0.7:6650", "pulsar+ssl": "pulsar+ssl://10.0.0.7:6651"},
        "outside": {
            "pulsar+ssl": "pulsar+ssl://mq.example.com:443",
            "https": "https://mq.example.com:8443",
        },
    }
    assert advertised_listeners.parse("") == {}
    assert advertised_listeners.host_names(advertised_listeners.parse(TEXT)) == {"mq.example.com"}


@pytest.mark.parametrize(
    "text",
    [
        "pulsar://h:1",
        "a:h:1",
        "a:ftp://h:1",
        "a:pulsar://h",
        "a:pulsar://h:many",
        "a:pulsar://:1",
        ":pulsar://h:1",
        "a:pulsar://h:1/path",
        "a:pulsar://h:1,a:pulsar://h:2",
    ],
)
def test_what_is_no_listener_is_refused_with_its_value(text: str) -> None:
    with pytest.raises(InvalidSetting, match="advertised_listeners"):
        Settings(advertised_listeners=text)


def test_who_names_no_listener_is_told_the_internal_one() -> None:
    known = Settings(advertised_listeners=TEXT, internal_listener_name="outside", port=1)
    assert known.url("pulsar+ssl", 2) == "pulsar+ssl://mq.example.com:443"
    # It has none for this scheme: the first that has.
    assert known.url("pulsar", 1) == "pulsar://10.0.0.7:6650"
    # Nobody has one: our own.
    assert known.url("http", 8080) == "http://127.0.0.1:8080"


def test_who_names_one_is_told_its_addresses_and_no_others() -> None:
    known = Settings(advertised_listeners=TEXT)
    assert known.listener_url("outside", "pulsar+ssl", 2) == "pulsar+ssl://mq.example.com:443"
    assert known.listener_url("outside", "pulsar", 1) == ""
    assert known.listener_url("", "pulsar", 1) == "pulsar://10.0.0.7:6650"
    with pytest.raises(ServiceNotReady, match="the broker do not have elsewhere listener"):
        known.listener_url("elsewhere", "pulsar", 1)


def test_without_listeners_there_is_the_internal_one() -> None:
    known = Settings()
    assert known.listener_url("internal", "pulsar", 6650) == "pulsar://127.0.0.1:6650"
    with pytest.raises(ServiceNotReady):
        known.listener_url("test", "pulsar", 6650)


def test_workers_are_told_at_the_hosts_of_a_listener_and_their_own_ports() -> None:
    known = Settings(advertised_listeners=TEXT, internal_listener_name="outside")
    assert known.worker_url("outside", "pulsar+ssl", 7001) == "pulsar+ssl://mq.example.com:7001"
    assert known.worker_url("outside", "pulsar+ssl", -1) == ""
    assert known.worker_url("outside", "pulsar", 7000) == ""
    assert known.worker_url("", "pulsar", 7000) == "pulsar://10.0.0.7:7000"
    with pytest.raises(ServiceNotReady, match="the broker do not have elsewhere listener"):
        known.worker_url("elsewhere", "pulsar", 7000)


def test_of_another_broker_its_own_listeners_are_told() -> None:
    known = Settings(advertised_listeners=TEXT)
    theirs = "outside:pulsar://other.example.com:6650"
    there = known.worker_url("outside", "pulsar", 7000, "10.0.0.8", theirs)
    assert there == "pulsar://other.example.com:7000"
    assert known.worker_url("", "pulsar", 7000, "10.0.0.8") == "pulsar://10.0.0.8:7000"
    assert known.worker_url("", "pulsar", 7000, "::2") == "pulsar://[::2]:7000"
    with pytest.raises(ServiceNotReady):
        known.worker_url("outside", "pulsar", 7000, "10.0.0.8")
