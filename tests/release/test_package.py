"""What is released is what was tested: wheel and sdist are built, installed where nothing else is, and run.

The environment is new: the wheel and its dependencies come from the package index, at the versions of the
lock file. The tour runs from there, with the official client and without Spark.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tarfile
import venv
import zipfile
from pathlib import Path

import pytest

import milepost

ROOT = Path(__file__).resolve().parents[2]
LOCK = ROOT / "requirements" / "dev.lock"
# A line of the lock file without its hashes: what is pinned to which version, and on which system.
PINNED = re.compile(r"^[\w.-]+(?:\[[^]]*])?==\S+(?: ;.*?)?(?= \\$|$)", re.MULTILINE)
BUILD_S_MAX = 120
INSTALL_S_MAX = 280
TOUR_S_MAX = 120


def run(*command: str | Path, seconds: int, cwd: Path | None = None) -> str:
    # Nothing of this environment may leak into the new one.
    environ = {k: v for k, v in os.environ.items() if not k.startswith("PYTHON")}
    done = subprocess.run(
        [str(word) for word in command],
        cwd=cwd,
        env=environ,
        capture_output=True,
        text=True,
        timeout=seconds,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The sdist of this tree, and the wheel that is built from the sdist, not from the tree."""
    folder = tmp_path_factory.mktemp("built")
    run(
        sys.executable,
        "-m",
        "hatchling",
        "build",
        "-t",
        "sdist",
        "-d",
        folder,
        seconds=BUILD_S_MAX,
        cwd=ROOT,
    )
    (sdist,) = folder.glob("*.tar.gz")
    with tarfile.open(sdist) as archive:
        archive.extractall(folder, filter="data")
    (tree,) = (path for path in folder.iterdir() if path.is_dir())
    run(
        sys.executable,
        "-m",
        "hatchling",
        "build",
        "-t",
        "wheel",
        "-d",
        folder,
        seconds=BUILD_S_MAX,
        cwd=tree,
    )
    (wheel,) = folder.glob("*.whl")
    return {"sdist": sdist, "wheel": wheel}


def test_the_wheel_has_the_package_and_nothing_else(built: dict[str, Path]) -> None:
    assert built["wheel"].name.startswith(f"milepost-{milepost.__version__}-py3-none-any")
    with zipfile.ZipFile(built["wheel"]) as archive:
        there = set(archive.namelist())
    tops = {name.partition("/")[0] for name in there}
    assert tops == {"milepost", "pyspark_milepost", f"milepost-{milepost.__version__}.dist-info"}
    tracked = run("git", "ls-files", "src", seconds=30, cwd=ROOT).splitlines()
    missing = {path.removeprefix("src/") for path in tracked} - there
    assert missing == set()


def test_the_tour_runs_from_the_wheel_in_a_new_environment(
    built: dict[str, Path], tmp_path: Path
) -> None:
    venv.create(tmp_path / "env", with_pip=True)
    python = tmp_path / "env" / "bin" / "python"
    pins = tmp_path / "pins.txt"
    pins.write_text("\n".join(PINNED.findall(LOCK.read_text("utf-8"))) + "\n")
    install = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    run(*install, "-c", pins, built["wheel"], "pulsar-client", seconds=INSTALL_S_MAX)
    where = run(python, "-c", "import milepost; print(milepost.__file__)", seconds=30, cwd=tmp_path)
    assert str(tmp_path / "env") in where
    command = tmp_path / "env" / "bin" / "milepost"
    assert run(command, "--version", seconds=30).split() == ["milepost", milepost.__version__]
    said = run(command, "demo", "--out", tmp_path / "out", seconds=TOUR_S_MAX, cwd=tmp_path)
    assert "acked 2, inflight 8, ready 0" in said
    assert "pip install 'milepost[spark]'" in said
