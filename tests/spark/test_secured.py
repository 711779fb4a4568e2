"""Source, sink and pipelines over TLS with each kind of credential: the rows of docs/spark.md's table."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import bcrypt
import pytest
from compat.broker_process import BrokerProcess
from pyspark.sql import SparkSession
from stage.certificates import Authority
from stage.security import SECURED, token

from milepost.cli import pipeline
from milepost.cli.exits import Exit
from milepost.cli.main import run
from milepost.client.connection.endpoint import Endpoint
from milepost.errors import ConnectError, InvalidInput, NotAuthenticated
from milepost.spark.options import read_options
from milepost.spark.reading.link import Link
from milepost.spark.reading.survey import partitions_of
from spark import program
from spark.cluster import Cluster, Driver, bare_python, installed, wheel
from spark.conftest import JAVA_VERSION_MIN, java_version
from spark.test_campaign import IS_LONG

ROWS = 40
KINDS = ("token", "token file", "password", "certificate")
# What is given by itself goes to executors as what names files does.
ON_A_CLUSTER = KINDS if IS_LONG else ("token file", "certificate")
DONE = {
    "read": ROWS,
    "streamed": ROWS,
    "archived": ROWS,
    "verified": ROWS,
    "replayed": ROWS,
    "problems": [],
}


class World(NamedTuple):
    """A broker that takes nothing but TLS and knows every way to say who one is."""

    broker: BrokerProcess
    folder: Path

    def options(self, kind: str) -> dict[str, str]:
        """Of the source and the sink."""
        folder = self.folder
        who = {
            "token": {"token": token("root")},
            "token file": {"tokenFile": str(folder / "token")},
            "password": {"user": "bob", "password": "secret"},
            "certificate": {
                "tlsCertificateFilePath": str(folder / "client.pem"),
                "tlsKeyFilePath": str(folder / "client.key"),
            },
        }[kind]
        return {
            "serviceUrl": f"pulsar+ssl://localhost:{self.broker.tls_port}",
            "adminUrl": f"https://localhost:{self.broker.https_port}",
            "tlsTrustCertsFilePath": str(folder / "ca.pem"),
            **who,
        }

    def flags(self, kind: str) -> list[str]:
        """Of the command line."""
        names = {
            "serviceUrl": "--url",
            "adminUrl": "--admin-url",
            "tlsTrustCertsFilePath": "--tls-trust-cert-path",
            "token": "--token",
            "tokenFile": "--token-file",
            "tlsCertificateFilePath": "--tls-cert",
            "tlsKeyFilePath": "--tls-key",
        }
        given = self.options(kind)
        found = [
            word for name, flag in names.items() if name in given for word in (flag, given[name])
        ]
        if "user" in given:
            found += [
                "--auth-plugin",
                "basic",
                "--auth-params",
                f"{given['user']}:{given['password']}",
            ]
        return found


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    folder = tmp_path_factory.mktemp("secured")
    authority = Authority("Test authority")
    (folder / "ca.pem").write_bytes(authority.pem)
    server = authority.issue("localhost", is_server=True).write(folder, "server")
    authority.issue("root").write(folder, "client")
    (folder / "token").write_text(token("root"))
    passwords = folder / "users"
    passwords.write_text(f"bob:{bcrypt.hashpw(b'secret', bcrypt.gensalt(4)).decode()}\n")
    passwords.chmod(0o600)
    settings = {
        **SECURED,
        "superuser_roles": "root,bob",
        "basic_auth_file": str(passwords),
        "tls_port": 0,
        "https_port": 0,
        "tls_certificate_file": str(server.certificate),
        "tls_key_file": str(server.key),
        "tls_trust_certs_file": str(folder / "ca.pem"),
    }
    with BrokerProcess(folder / "broker", **settings) as broker:
        yield World(broker, folder)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    if java_version() < JAVA_VERSION_MIN:
        pytest.skip("Spark needs Java 17 or newer")
    with Cluster(tmp_path_factory.mktemp("cluster")) as made:
        yield made


@pytest.mark.parametrize("kind", KINDS)
def test_on_one_machine(
    spark: SparkSession, world: World, topic: str, tmp_path: Path, kind: str
) -> None:
    options = {**world.options(kind), "topic": topic}
    assert program.whole_way(spark, str(tmp_path), ROWS, **options) == DONE


def test_on_a_cluster(cluster: Cluster, world: World, topic: str, tmp_path: Path) -> None:
    modules = installed(wheel(tmp_path / "wheel"), tmp_path / "installed")
    settings = {"master": cluster.url, "executor_path": str(modules)}
    jobs = [
        {
            "job": "whole_way",
            "directory": str(tmp_path / kind),
            "rows": ROWS,
            **world.options(kind),
            "topic": f"{topic}-{number}",
        }
        for number, kind in enumerate(ON_A_CLUSTER)
    ]
    for kind in ON_A_CLUSTER:
        (tmp_path / kind).mkdir()
    python = bare_python(tmp_path)
    with Driver(tmp_path, modules=modules, python=python, jobs=jobs, **settings) as driver:
        assert driver.result() == {"ready": True}
        assert [driver.result() for _ in ON_A_CLUSTER] == [DONE] * len(ON_A_CLUSTER)


@pytest.mark.parametrize("kind", KINDS)
def test_the_commands(
    spark: SparkSession,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    world: World,
    topic: str,
    tmp_path: Path,
    kind: str,
) -> None:
    monkeypatch.setattr(pipeline, "start_spark", lambda master: spark)
    flags, lake = [*world.flags(kind), "-o", "json"], str(tmp_path)
    assert run(["produce", topic, "-m", "one", *world.flags(kind)]) == Exit.OK
    for words in (
        ["archive", topic, lake],
        ["verify", lake],
        ["replay", lake, f"{topic}-copy"],
        ["verify", lake, "--copy", f"{topic}-copy"],
    ):
        capsys.readouterr()
        assert run(["pipeline", *words, *flags]) == Exit.OK, capsys.readouterr().err
        assert json.loads(capsys.readouterr().out)[0]["messages"] == 1


# What is not obeyed is refused. Without Spark: the link is what all of it goes through.


def endpoint(world: World, **more: Any) -> Endpoint:
    given = {name: text for name, text in world.options("token").items() if name not in more}
    return read_options({**given, "topic": "t", "timeout": "2s", **more}).connection


def test_tls_is_not_given_up_for_a_plain_port(world: World) -> None:
    plain = f"pulsar+ssl://localhost:{world.broker.port}"
    with pytest.raises(ConnectError, match="closed during the TLS handshake"):
        Link.open(endpoint(world, serviceUrl=plain))


def test_a_broker_that_is_not_trusted_is_refused(world: World) -> None:
    other = world.folder / "other.pem"
    other.write_bytes(Authority("Another").pem)
    with pytest.raises(ConnectError, match="certificate verify failed"):
        Link.open(endpoint(world, tlsTrustCertsFilePath=str(other)))
    Link.open(
        endpoint(world, tlsTrustCertsFilePath=str(other), tlsAllowInsecureConnection="true")
    ).close()


def test_a_name_that_is_not_the_certificates_is_refused(world: World) -> None:
    elsewhere = f"pulsar+ssl://127.0.0.2:{world.broker.tls_port}"
    with pytest.raises(ConnectError):
        Link.open(endpoint(world, serviceUrl=elsewhere))


def test_who_is_not_known_is_refused(world: World) -> None:
    with pytest.raises(NotAuthenticated):
        Link.open(endpoint(world, token="nonsense"))


def test_a_file_that_is_missing_is_named(world: World) -> None:
    with pytest.raises(InvalidInput, match=r"nowhere\.pem"):
        Link.open(endpoint(world, tlsTrustCertsFilePath="nowhere.pem"))


def test_a_link_works_where_a_loop_is_running(world: World) -> None:
    """As in a notebook."""

    async def ask() -> list[str]:
        return partitions_of(endpoint(world), "persistent://public/default/notebook", make=True)

    assert asyncio.run(ask()) == ["persistent://public/default/notebook"]
