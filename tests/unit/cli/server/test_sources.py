"""Sources of settings: their order, where each value came from, and what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from milepost.broker.settings.setting import MIB, Kind
from milepost.broker.settings.settings import PULSAR_KEYS, TABLE, Settings
from milepost.cli.server.sources import Loaded, load
from milepost.errors import InvalidSetting


@pytest.fixture
def write(tmp_path: Path):
    def write(name: str, text: str) -> Path:
        path = tmp_path / name
        path.write_text(text, "utf-8")
        return path

    return write


def refused(**sources: object) -> str:
    with pytest.raises(InvalidSetting) as caught:
        load(**sources)  # type: ignore[arg-type]
    return str(caught.value)


def test_without_sources_everything_is_a_default() -> None:
    loaded = load()
    assert loaded.settings == Settings()
    assert loaded.origins == dict.fromkeys(TABLE, "default")
    assert list(loaded.warnings) == []


def test_each_source_overrules_those_before_it(write) -> None:
    """The same setting in every source, taken away from the last one to the first."""
    conf = write("broker.conf", "\nbrokerServicePort=1\n")
    toml = write("milepost.toml", "port = 2\n")
    pulsar, ours = {"PULSAR_PREFIX_brokerServicePort": "3"}, {"MILEPOST_PORT": "4"}
    flag = [("--port", "port", "5")]

    def port(loaded: Loaded) -> tuple[int, str]:
        return loaded.settings.port, loaded.origins["port"]

    everything = {**pulsar, **ours}
    assert port(load(conf=conf, toml=toml, environ=everything, flags=flag)) == (5, "--port")
    assert port(load(conf=conf, toml=toml, environ=everything)) == (4, "MILEPOST_PORT")
    assert port(load(conf=conf, toml=toml, environ=pulsar)) == (
        3,
        "PULSAR_PREFIX_brokerServicePort",
    )
    assert port(load(conf=conf, toml=toml)) == (2, "milepost.toml:1")
    assert port(load(conf=conf)) == (1, "broker.conf:2")
    assert port(load()) == (6650, "default")


def test_a_later_source_leaves_the_other_settings(write) -> None:
    loaded = load(
        toml=write("m.toml", 'port = 2\nmax_message_size = "1 MiB"\n'),
        environ={"MILEPOST_PORT": "4", "HOME": "/home/x"},
    )
    assert loaded.settings == Settings(port=4, max_message_size=MIB)
    assert loaded.origins["max_message_size"] == "m.toml:2"


# Pulsar's conf files.


def test_known_keys_of_a_conf_file_are_honoured_in_their_units(write) -> None:
    text = """
        bindAddress=0.0.0.0
        managedLedgerCacheSizeMB=128
        managedLedgerMaxLedgerRolloverTimeMinutes=10
        brokerShutdownTimeoutMs=1500
        maxPendingPublishdRequestsPerConnection=77
        acknowledgmentAtBatchIndexLevelEnabled=true
    """
    settings = load(conf=write("broker.conf", text)).settings
    assert settings == Settings(
        host="0.0.0.0",
        tail_cache_size=128 * MIB,
        ledger_age_max_s=600,
        shutdown_timeout_s=1.5,
        max_pending_publish_requests_per_connection=77,
    )


def test_unknown_keys_of_a_conf_file_are_listed_once(write) -> None:
    text = "zookeeperServers=\nclusterName=east\nnumIOThreads=8\nzookeeperServers=\n"
    loaded = load(conf=write("broker.conf", text))
    assert loaded.settings.cluster_name == "east"
    assert list(loaded.warnings) == [
        "not used here, from broker.conf: numIOThreads, zookeeperServers"
    ]


@pytest.mark.parametrize("key", [key for key, (_, alias) in PULSAR_KEYS.items() if not alias.empty])
def test_a_key_without_a_value_asks_for_the_default(write, key: str) -> None:
    loaded = load(conf=write("broker.conf", f"{key}=\n"))
    assert loaded.settings == Settings()
    assert set(loaded.origins.values()) == {"default"}


def test_a_plain_port_without_a_value_is_no_port(write) -> None:
    text = (
        "brokerServicePort=\nbrokerServicePortTls=6651\nwebServicePort=\nwebServicePortTls=8443\n"
    )
    settings = load(conf=write("broker.conf", text)).settings
    assert (settings.port, settings.tls_port) == (-1, 6651)
    assert (settings.http_port, settings.https_port) == (-1, 8443)


def test_a_broker_that_nobody_could_connect_to_is_refused(write) -> None:
    with pytest.raises(InvalidSetting, match="port = -1 and tls_port = -1: one of the two"):
        load(conf=write("broker.conf", "brokerServicePort=\n"))


def test_a_secret_is_in_no_message(write) -> None:
    conf = write(
        "broker.conf", "tokenSecretKey=data:;base64,QUFB\ntokenSecretKey=data:;base64,QkJC\n"
    )
    with pytest.raises(InvalidSetting) as refused:
        load(conf=conf)
    assert "tokenSecretKey" in str(refused.value)
    assert "QUFB" not in str(refused.value)
    assert "QkJC" not in str(refused.value)


def test_interceptors_keep_broker_entry_metadata_on(write) -> None:
    conf = write("broker.conf", "brokerEntryMetadataInterceptors=org.example.AppendIndex\n")
    loaded = load(conf=conf)
    assert loaded.settings.broker_entry_metadata
    assert loaded.origins["broker_entry_metadata"] == "broker.conf:1"
    none = load(conf=write("broker.conf", "brokerEntryMetadataInterceptors=\n"))
    assert none.settings.broker_entry_metadata
    ours = load(conf=conf, environ={"MILEPOST_BROKER_ENTRY_METADATA": "false"})
    assert not ours.settings.broker_entry_metadata


def test_a_promise_that_is_switched_off_is_said(write) -> None:
    text = "maxMessageSize=1048576\nacknowledgmentAtBatchIndexLevelEnabled=false\n"
    loaded = load(conf=write("broker.conf", text))
    assert not loaded.settings.batch_index_ack
    (warning,) = loaded.warnings
    assert warning.startswith("batch_index_ack is off (broker.conf:2): ")


def test_one_setting_twice_is_fine_if_they_agree(write) -> None:
    agree = "maxMessageSize=2048\nmaxMessageSize=2048\n"
    assert load(conf=write("a.conf", agree)).settings.max_message_size == 2048


def test_one_setting_with_two_values_is_refused(write) -> None:
    text = "maxPendingPublishRequestsPerConnection=5\n\nmaxPendingPublishdRequestsPerConnection=6\n"
    assert refused(conf=write("a.conf", text)) == (
        "a.conf:3: maxPendingPublishdRequestsPerConnection = '6': a.conf:1 says 5; keep one of them"
    )
    assert "--set says" in refused(flags=[("--set", "port", "1"), ("--port", "port", "2")])


# What is refused, and how.


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "port = 70000",
            "m.toml:1: port = 70000: expected a whole number from -1 to 65535",
        ),
        (
            '\n\nport = "6650"',
            "m.toml:3: port = '6650': expected a whole number from -1 to 65535",
        ),
        ("deduplication = 1", "m.toml:1: deduplication = 1: expected true or false"),
        ("port = [1]", "m.toml:1: port = a list: expected a whole number from -1 to 65535"),
        (
            "port" + ".a" * 5000 + " = 1",
            "m.toml:1: port = a dict: expected a whole number from -1 to 65535",
        ),
        ("prot = 1", "m.toml:1: prot: there is no such setting; did you mean port?"),
        (
            "# x\n[zz]\nport = 1",
            "m.toml:2: zz: there is no such setting; `milepost config show` lists the settings",
        ),
        (
            "maxMessageSize = 1",
            "m.toml:1: maxMessageSize: that is Pulsar's name; here it is max_message_size, and "
            "--conf reads broker.conf",
        ),
        ("port = 1\nport = 2", "m.toml:2: not TOML: Cannot overwrite a value"),
    ],
)
def test_a_toml_file_is_read_strictly(write, text: str, message: str) -> None:
    assert refused(toml=write("m.toml", text)) == message


@pytest.mark.parametrize(
    ("sources", "message"),
    [
        (
            {"environ": {"MILEPOST_PORT": "x"}},
            "MILEPOST_PORT: port = 'x': expected a whole number from -1 to 65535",
        ),
        (
            {"environ": {"PULSAR_PREFIX_maxMessageSize": "1"}},
            "PULSAR_PREFIX_maxMessageSize: maxMessageSize = '1': expected a size (bytes, or a "
            "number with KiB, MiB or GiB) from 1 KiB to 512 MiB",
        ),
        (
            {"flags": [("--port", "port", "-2")]},
            "--port: port = '-2': expected a whole number from -1 to 65535",
        ),
        (
            {"flags": [("--set", "hots", "x")]},
            "--set: hots: there is no such setting; did you mean host?",
        ),
    ],
)
def test_variables_and_flags_are_named(sources: dict[str, object], message: str) -> None:
    assert refused(**sources) == message


def test_a_conf_file_names_its_line(write) -> None:
    assert refused(conf=write("broker.conf", "a=b\nwebServicePort=eighty\n")) == (
        "broker.conf:2: webServicePort = 'eighty': expected a whole number from -1 to 65535"
    )


def test_files_that_cannot_be_read_are_named(tmp_path: Path) -> None:
    missing = tmp_path / "none.toml"
    assert refused(toml=missing) == f"{missing}: cannot be read: there is no such file"
    assert refused(conf=tmp_path) == f"{tmp_path}: cannot be read: Is a directory"
    binary = tmp_path / "binary.conf"
    binary.write_bytes(b"a=b\n\xff")
    assert refused(conf=binary) == f"{binary}: not UTF-8 at byte 4"


def test_a_variable_of_another_program_is_reported_not_refused() -> None:
    loaded = load(environ={"MILEPOST_CAMPAIGN": "long", "PULSAR_PREFIX_x": "1"})
    assert [(one.where, one.key) for one in loaded.unused] == [
        ("PULSAR_PREFIX_x", "x"),
        ("environment", "MILEPOST_CAMPAIGN"),
    ]


@given(st.dictionaries(st.sampled_from(sorted(PULSAR_KEYS)), st.text(max_size=20), max_size=4))
def test_any_values_end_in_settings_or_in_one_error(given_values: dict[str, str]) -> None:
    environ = {f"PULSAR_PREFIX_{key}": value for key, value in given_values.items()}
    try:
        loaded = load(environ=environ)
    except InvalidSetting as error:
        assert str(error).isprintable()  # noqa: PT017
    else:
        for name, setting in TABLE.items():
            assert setting.accepts(getattr(loaded.settings, name))
            assert setting.kind is Kind.DURATION or isinstance(
                getattr(loaded.settings, name), type(setting.default)
            )


def test_variables_of_the_command_line_are_no_settings() -> None:
    environ = {"MILEPOST_ADMIN_URL": "x", "MILEPOST_CONTEXT": "x", "MILEPOST_CONTEXTS": "x"}
    assert load(environ=environ).unused == ()
