"""deploy/: what the files for systemd, containers, Prometheus and Grafana say is so."""

from __future__ import annotations

import configparser
import dataclasses
import json
import re
import shutil
import subprocess
from collections.abc import Iterable
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from e2e.conftest import ENVIRONMENT, MILEPOST, Serving
from milepost.broker.monitoring.verdicts import Verdict
from milepost.broker.settings.settings import Settings
from milepost.cli.exits import Exit

yaml = pytest.importorskip("yaml")

DEPLOY = Path(__file__).parents[2] / "deploy"
METRIC = re.compile(r"\b(?:milepost|pulsar|process)_[a-z_]+\b")


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> dict[str, set[str]]:
    """Metrics of a broker that is in use, and of one with a shard of a bucket, by name, with their labels."""
    folder = tmp_path_factory.mktemp("deploy")
    bucket = ("--bucket", (folder / "bucket").as_uri(), "--shards", "1")
    member = Serving(folder / "member", *bucket)
    try:
        clustered = member.get("/metrics").decode()
    finally:
        member.stop()
    broker = Serving(folder / "data")
    try:
        for words in ("produce orders -m x", "subscriptions create orders billing"):
            url = ["--admin-url", broker.ready["http_url"]]
            subprocess.run([*MILEPOST, *url, *words.split()], env=ENVIRONMENT, check=True)
        text = broker.get("/metrics").decode() + clustered
    finally:
        broker.stop()
    found = {name: set[str]() for name in re.findall(r"^# TYPE (\S+) ", text, re.MULTILINE)}
    for name, labels in re.findall(r"^(\w+)\{(.*)\} ", text, re.MULTILINE):
        found.setdefault(name, set()).update(re.findall(r'(\w+)="', labels))
    return found


def rules() -> list[dict[str, Any]]:
    (group,) = yaml.safe_load((DEPLOY / "alerts.yml").read_text("utf-8"))["groups"]
    found: list[dict[str, Any]] = group["rules"]
    return found


def board() -> dict[str, Any]:
    found: dict[str, Any] = json.loads((DEPLOY / "grafana.json").read_text("utf-8"))
    return found


def test_alerts_and_board_ask_for_what_there_is(shown: dict[str, set[str]]) -> None:
    asked = [rule["expr"] for rule in rules()]
    asked += [target["expr"] for panel in board()["panels"] for target in panel["targets"]]
    asked += [one["query"] for one in board()["templating"]["list"] if one["type"] == "query"]
    names = {name for expression in asked for name in METRIC.findall(expression)}
    assert len(names) > 20
    assert names <= shown.keys()
    for expression in asked:
        for name, labels in re.findall(r"(\w+)\{([^}]*)\}", expression):
            wanted = set(re.findall(r'(\w+)=~?"', labels)) - {"job"}
            assert wanted <= shown.get(name, set()), expression


def test_each_alert_says_something_and_the_page_knows_it() -> None:
    page = (DEPLOY.parent / "docs" / "operating.md").read_text("utf-8")
    assert len({rule["alert"] for rule in rules()}) == len(rules())
    for rule in rules():
        assert rule["annotations"]["summary"]
    for named in set(re.findall(r"`(Milepost[A-Z]\w+)`", page)):
        assert named in {rule["alert"] for rule in rules()}
    loaded = yaml.safe_load((DEPLOY / "prometheus.yml").read_text("utf-8"))
    assert loaded["rule_files"] == ["alerts.yml"]
    assert loaded["scrape_configs"][0]["job_name"] == "milepost"


def test_trouble_begins_where_the_rules_say() -> None:
    (trouble,) = [rule for rule in rules() if rule["alert"] == "MilepostGroupInTrouble"]
    assert list(Verdict)[4] is Verdict.NO_CONSUMER
    assert trouble["expr"].endswith(">= 4")
    (slow,) = [rule for rule in rules() if rule["alert"] == "MilepostGroupSlow"]
    assert list(Verdict)[2] is Verdict.SLOW
    assert slow["expr"].endswith("== 2")


def test_panels_do_not_lie_over_each_other() -> None:
    taken: set[tuple[int, int]] = set()
    for panel in board()["panels"]:
        at = panel["gridPos"]
        cells = {
            (x, y)
            for x in range(at["x"], at["x"] + at["w"])
            for y in range(at["y"], at["y"] + at["h"])
        }
        assert not cells & taken, panel["title"]
        assert at["x"] + at["w"] <= 24
        taken |= cells


def unit() -> configparser.SectionProxy:
    parser = configparser.ConfigParser(strict=True, interpolation=None)
    parser.optionxform = str  # type: ignore[assignment,method-assign]
    parser.read(DEPLOY / "milepost.service")
    return parser["Service"]


def test_the_unit_starts_what_there_is(tmp_path: Path) -> None:
    program, *flags = unit()["ExecStart"].split()
    assert program.endswith("/milepost")
    (tmp_path / "milepost.toml").write_text("")
    here = [flag.replace("/etc/milepost", str(tmp_path)) for flag in flags]
    checked = subprocess.run(
        [*MILEPOST, *here, "--check-config"],
        env=ENVIRONMENT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (checked.returncode, checked.stdout) == (0, "the settings are good\n"), checked.stderr
    assert (
        unit()["KillMode"] == "mixed"
    )  # else every process of a shard is told before the first one
    mark, *asks = unit()["ExecStartPost"].split()
    assert mark == f"-{program}"
    helped = subprocess.run(
        [*MILEPOST, *asks, "--help"], env=ENVIRONMENT, capture_output=True, check=False
    )
    assert helped.returncode == 0
    final = {int(code) for code in unit()["RestartPreventExitStatus"].split()}
    assert final == {Exit.USAGE, Exit.NOT_FOUND, Exit.CONFLICT, Exit.DATA}


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="no systemd here")
def test_systemd_reads_the_unit(tmp_path: Path) -> None:
    program = unit()["ExecStart"].split()[0]
    text = (DEPLOY / "milepost.service").read_text("utf-8").replace(program, "/bin/true")
    copy = tmp_path / "milepost.service"
    copy.write_text(text)
    done = subprocess.run(
        ["systemd-analyze", "verify", str(copy)], capture_output=True, text=True, check=False
    )
    ours = [line for line in done.stderr.splitlines() if "milepost.service" in line]
    assert ours == []


def test_the_container_starts_what_there_is() -> None:
    text = (DEPLOY / "Dockerfile").read_text("utf-8")
    (entry,) = re.findall(r"^ENTRYPOINT (\[.*\])$", text, re.MULTILINE)
    program, *flags = json.loads(entry)
    assert program == "milepost"
    checked = subprocess.run(
        [*MILEPOST, *flags, "--check-config"],
        env=ENVIRONMENT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert checked.returncode == 0, checked.stderr
    for source in re.findall(r"^COPY (.*) /src\S*$", text, re.MULTILINE):
        assert all((DEPLOY.parent / one).exists() for one in source.split())
    (check,) = re.findall(r"^HEALTHCHECK .* CMD (\[.*\])$", text, re.MULTILINE)
    _, *words = json.loads(check)
    helped = subprocess.run(
        [*MILEPOST, *words, "--help"], env=ENVIRONMENT, capture_output=True, check=False
    )
    assert helped.returncode == 0


# -- several brokers ---------------------------------------------------------------------------------


def checked_settings(arguments: list[str], environment: dict[str, str]) -> None:
    """The entry point of the container takes these arguments and settings."""
    text = (DEPLOY / "Dockerfile").read_text("utf-8")
    (entry,) = re.findall(r"^ENTRYPOINT (\[.*\])$", text, re.MULTILINE)
    _, *flags = json.loads(entry)
    done = subprocess.run(
        [*MILEPOST, *flags, *arguments, "--check-config"],
        env={**ENVIRONMENT, **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, ""), done.stderr


def known_settings(names: Iterable[str]) -> None:
    fields = {f"MILEPOST_{one.name.upper()}" for one in dataclasses.fields(Settings)}
    assert {name for name in names if name.startswith("MILEPOST_")} <= fields


def seconds(text: str) -> float:
    assert text.endswith("s")
    return float(text[:-1])


def test_the_compose_file_starts_three_brokers_of_one_cluster() -> None:
    text = (DEPLOY / "compose.yml").read_text("utf-8")
    defaults = re.sub(r"\$\{\w+:-([^}]*)\}", r"\1", text)
    loaded = yaml.safe_load(defaults)
    services = loaded["services"]
    brokers = {name: one for name, one in services.items() if name.startswith("broker-")}
    assert len(brokers) == 3
    for name, broker in brokers.items():
        assert (DEPLOY / broker["build"]["context"] / broker["build"]["dockerfile"]).exists()
        assert broker["command"] == ["--set", f"advertised_address={name}"]
        assert broker["depends_on"].keys() <= services.keys()
        assert broker["environment"] == brokers["broker-1"]["environment"], "one cluster"
        assert seconds(broker["stop_grace_period"]) > Settings().shutdown_timeout_s
    environment = brokers["broker-1"]["environment"]
    known_settings(environment)
    checked_settings(brokers["broker-1"]["command"], environment)
    bucket = urlsplit(environment["MILEPOST_BUCKET"])
    assert f"store/{bucket.netloc}" in services["bucket"]["command"][0]
    assert urlsplit(environment["MILEPOST_BUCKET_ENDPOINT"]).hostname in services
    assert set(loaded["volumes"]) == {
        one.partition(":")[0] for each in services.values() for one in each.get("volumes", ())
    }


def test_the_compose_file_for_rocketmq_starts_a_broker_with_its_ports() -> None:
    loaded = yaml.safe_load((DEPLOY / "rocketmq.compose.yml").read_text("utf-8"))
    (broker,) = loaded["services"].values()
    text = broker["build"]["dockerfile_inline"]
    (entry,) = re.findall(r"^ENTRYPOINT (\[.*\])$", text, re.MULTILINE)
    program, *flags = json.loads(entry)
    assert program == "milepost"
    command = [*MILEPOST, *flags, *broker["command"], "--check-config"]
    done = subprocess.run(command, env=ENVIRONMENT, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    for sources in re.findall(r"^COPY (.*) /src\S*$", text, re.MULTILINE):
        assert all((DEPLOY.parent / one).exists() for one in sources.split())
    inside = [int(one.rpartition(":")[2]) for one in broker["ports"]]
    own = re.findall(r"-port=(\d+)", " ".join(broker["command"]))
    assert inside == [Settings().port, Settings().http_port, *map(int, own)]
    assert all(one.startswith("127.0.0.1:") for one in broker["ports"]), (
        "it asks for no credentials"
    )
    _, *words = broker["healthcheck"]["test"][1:]
    helped = subprocess.run(
        [*MILEPOST, *words, "--help"], env=ENVIRONMENT, capture_output=True, check=False
    )
    assert helped.returncode == 0
    assert seconds(broker["stop_grace_period"]) > Settings().shutdown_timeout_s
    assert [one.partition(":")[0] for one in broker["volumes"]] == list(loaded["volumes"])


def test_the_stateful_set_starts_brokers_of_one_cluster() -> None:
    text = (DEPLOY / "kubernetes.yml").read_text("utf-8")
    loaded = list(yaml.safe_load_all(text))
    (pods,) = [one for one in loaded if one["kind"] == "StatefulSet"]
    services = {one["metadata"]["name"]: one["spec"] for one in loaded if one["kind"] == "Service"}
    template = pods["spec"]["template"]
    for one in (
        pods["spec"]["selector"]["matchLabels"],
        *(each["selector"] for each in services.values()),
    ):
        assert one == template["metadata"]["labels"]
    spec = template["spec"]
    accounts = [one["metadata"]["name"] for one in loaded if one["kind"] == "ServiceAccount"]
    assert accounts == [spec["serviceAccountName"]]
    assert spec["terminationGracePeriodSeconds"] > Settings().shutdown_timeout_s
    headless = services[pods["spec"]["serviceName"]]
    assert headless["clusterIP"] == "None"
    assert headless["publishNotReadyAddresses"], "brokers look for each other before they are ready"
    (container,) = spec["containers"]
    environment = {
        one["name"]: one.get("value", f"the-{one['name'].lower()}") for one in container["env"]
    }
    known_settings(environment)
    arguments = [
        re.sub(r"\$\((\w+)\)", lambda found: environment[found[1]].replace("_", "-"), one)
        for one in container["args"]
    ]
    assert f".{pods['spec']['serviceName']}." in arguments[1]
    checked_settings(arguments, {k: v for k, v in environment.items() if k.startswith("MILEPOST_")})
    ports = {one["name"]: one["containerPort"] for one in container["ports"]}
    assert ports == {"pulsar": Settings().port, "http": Settings().http_port}
    for service in services.values():
        assert {one["name"]: one["port"] for one in service["ports"]} == ports
    assert container["readinessProbe"]["tcpSocket"]["port"] in ports
    mounts = {one["name"]: one["mountPath"] for one in container["volumeMounts"]}
    assert mounts == {one["name"]: "/data" for one in spec["volumes"]}
