"""deploy/: what the files for systemd, containers, Prometheus and Grafana say is so."""

from __future__ import annotations

import configparser
import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from e2e.conftest import ENVIRONMENT, MILEPOST, Serving
from milepost.broker.monitoring.verdicts import Verdict
from milepost.cli.exits import Exit

yaml = pytest.importorskip("yaml")

DEPLOY = Path(__file__).parents[2] / "deploy"
METRIC = re.compile(r"\b(?:milepost|pulsar|process)_[a-z_]+\b")


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> dict[str, set[str]]:
    """Metrics of a broker that is in use, by name, with their labels."""
    broker = Serving(tmp_path_factory.mktemp("deploy") / "data")
    try:
        for words in ("produce orders -m x", "subscriptions create orders billing"):
            url = ["--admin-url", broker.ready["http_url"]]
            subprocess.run([*MILEPOST, *url, *words.split()], env=ENVIRONMENT, check=True)
        text = broker.get("/metrics").decode()
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
    mark, *asks = unit()["ExecStartPost"].split()
    assert mark == f"-{program}"
    helped = subprocess.run(
        [*MILEPOST, *asks, "--help"], env=ENVIRONMENT, capture_output=True, check=False
    )
    assert helped.returncode == 0
    final = {int(code) for code in unit()["RestartPreventExitStatus"].split()}
    assert final == {Exit.USAGE, Exit.CONFLICT, Exit.DATA}


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
