"""The table of settings: complete, consistent, and as upstream where upstream has the setting."""

from __future__ import annotations

import dataclasses
import re

import pytest

from milepost.broker.settings.setting import MIB, Kind
from milepost.broker.settings.settings import GROUPS, PULSAR_KEYS, TABLE, Settings
from milepost.errors import InvalidSetting
from milepost.storage.journal.loop_commit import TYPICAL_MAX_S
from milepost.storage.journal.runway import AHEAD_DEFAULT
from milepost.storage.ledgers.log import RollPolicy
from milepost.storage.ledgers.tail import TAIL_SIZE_DEFAULT
from milepost.storage.store import JOURNAL_SIZE_DEFAULT


def test_every_field_has_its_row_and_its_sentence() -> None:
    assert set(TABLE) == {field.name for field in dataclasses.fields(Settings)}
    for name, setting in TABLE.items():
        assert setting.name == name
        assert re.fullmatch(r"[a-z][a-z0-9]*(_[a-z0-9]+)*", name)
        assert setting.doc.endswith((".", "…")), name
        assert "|" not in setting.doc, "it stands in a table"


def test_no_key_of_pulsar_means_two_settings() -> None:
    assert len(PULSAR_KEYS) == sum(len(setting.aliases) for setting in TABLE.values())


def test_groups_begin_with_the_first_setting() -> None:
    assert next(iter(GROUPS)) == next(iter(TABLE))
    assert [name for name in TABLE if name in GROUPS] == list(GROUPS)


@pytest.mark.parametrize(("name", "setting"), TABLE.items())
def test_a_shown_default_is_read_back(name: str, setting: object) -> None:
    row = TABLE[name]
    assert row.parse(row.show(row.default)) == row.default


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("brokerServicePort", 6650),
        ("webServicePort", 8080),
        ("maxMessageSize", 5242880),
        ("keepAliveIntervalSeconds", 30),
        ("maxPendingPublishRequestsPerConnection", 1000),
        ("maxUnackedMessagesPerConsumer", 50_000),
        ("maxUnackedMessagesPerSubscription", 200_000),
        ("brokerDeduplicationEnabled", False),
        ("allowAutoTopicCreation", True),
        ("allowAutoTopicCreationType", "non-partitioned"),
        ("defaultNumPartitions", 1),
        ("allowAutoSubscriptionCreation", True),
        ("dispatcherMaxReadSizeBytes", 5 * MIB),
        ("dispatcherMaxRoundRobinBatchSize", 20),
        ("managedLedgerMaxLedgerRolloverTimeMinutes", 240 * 60),
        ("brokerMaxConnections", 0),
        ("brokerMaxConnectionsPerIp", 0),
        ("maxProducersPerTopic", 0),
        ("maxConsumersPerTopic", 0),
        ("maxConsumersPerSubscription", 0),
        ("maxSubscriptionsPerTopic", 0),
    ],
)
def test_defaults_are_those_of_upstream(key: str, value: object) -> None:
    assert PULSAR_KEYS[key][0].default == value


def test_exactness_is_on() -> None:
    """Upstream's defaults differ here; exactness is the product."""
    settings = Settings()
    assert settings.batch_index_ack
    assert settings.broker_entry_metadata
    assert settings.expose_broker_entry_metadata
    assert all(
        TABLE[name].weakens
        for name in ("batch_index_ack", "broker_entry_metadata", "expose_broker_entry_metadata")
    )


def test_defaults_of_storage_are_told_once() -> None:
    settings, policy = Settings(), RollPolicy()
    assert settings.ledger_size_max == policy.size_bytes_max
    assert settings.ledger_entries_max == policy.entries_max
    assert settings.ledger_age_max_s * 1000 == policy.age_ms_max
    assert settings.journal_size_max == JOURNAL_SIZE_DEFAULT
    assert settings.tail_cache_size == TAIL_SIZE_DEFAULT
    assert settings.journal_shortcut_s == TYPICAL_MAX_S
    assert settings.journal_ahead_size == AHEAD_DEFAULT


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"port": 70000}, "port = 70000: expected a whole number from -1 to 65535"),
        ({"port": "6650"}, "port = '6650': expected a whole number from -1 to 65535"),
        ({"deduplication": 1}, "deduplication = 1: expected true or false"),
        ({"data": "data"}, "data = 'data': expected a path"),
        (
            {"max_message_size": 10},
            "max_message_size = 10: expected a size (bytes, or a number with KiB, MiB or GiB) "
            "from 1 KiB to 512 MiB",
        ),
    ],
)
def test_a_value_out_of_range_does_not_get_in(values: dict[str, object], message: str) -> None:
    with pytest.raises(InvalidSetting) as caught:
        Settings(**values)  # type: ignore[arg-type]
    assert str(caught.value) == message


def test_settings_do_not_change() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        Settings().port = 1  # type: ignore[misc]


@pytest.mark.parametrize(
    ("host", "advertised", "told"),
    [
        ("127.0.0.1", "", "127.0.0.1"),
        ("0.0.0.0", "", "localhost"),
        ("::", "", "localhost"),
        ("0.0.0.0", "mq.example.com", "mq.example.com"),
    ],
)
def test_clients_are_told_a_host_they_can_reach(host: str, advertised: str, told: str) -> None:
    assert Settings(host=host, advertised_address=advertised).advertised_host == told


@pytest.mark.parametrize(
    "address", ["b-1.example", "broker_1", "10.0.0.7", "::1", "müller.example"]
)
def test_an_address_for_clients_is_taken(address: str) -> None:
    assert Settings(advertised_address=address).advertised_host == address


@pytest.mark.parametrize(
    "address",
    ["b..example", "x" * 64 + ".example", "b-1:6650", "pulsar://b-1", "[::1]", "b 1", "a@b", "b/1"],
)
def test_what_no_client_can_connect_to_is_refused(address: str) -> None:
    with pytest.raises(InvalidSetting, match=r"advertised_address = .*without scheme and port"):
        Settings(advertised_address=address)


def test_kinds_fit_their_values() -> None:
    """A size or a duration in a plain count would be read without its unit."""
    for name, setting in TABLE.items():
        assert (setting.kind is Kind.DURATION) <= name.endswith("_s"), name
        assert ("size" in name.split("_")) == (setting.kind is Kind.SIZE) or name == "max_memory"


def test_a_secret_is_not_shown() -> None:
    inline = "data:;base64," + "QUJD" * 12
    settings = Settings(token_secret_key=inline)
    assert "QUJD" not in repr(settings)
    assert TABLE["token_secret_key"].show(inline) == "(hidden)"
    assert TABLE["token_secret_key"].show("file:///etc/secret.key") == "file:///etc/secret.key"
    with pytest.raises(InvalidSetting) as refused:
        Settings(token_secret_key="QUJD\n")
    assert "QUJD" not in str(refused.value)


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"shards": "0"}, "expected a whole number from 1 to 64, or auto"),
        ({"shards": "many"}, "expected a whole number from 1 to 64, or auto"),
        ({"bucket": ""}, "without bucket"),
        ({"workers": "2", "bucket": ""}, "without bucket"),
        ({"host": "0.0.0.0"}, "without advertised_address"),
        ({"rocketmq_port": 0}, "RocketMQ clients are served by one process"),
    ],
)
def test_what_does_not_go_together_with_shards_is_refused(
    settings: dict[str, object], says: str
) -> None:
    good = {"bucket": "s3://b/p", "shards": "auto", "host": "127.0.0.1"}
    Settings(**good)
    with pytest.raises(InvalidSetting, match=says):
        Settings(**{**good, **settings})
