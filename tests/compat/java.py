"""The official Java jars, and the programs of `java_client` compiled against them."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

SOURCE = Path(__file__).with_name("java_client")
BUILD_TIMEOUT_S = 280


def run(command: list[str], directory: Path, timeout: float) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command, cwd=directory, capture_output=True, text=True, timeout=timeout, check=False
    )


@pytest.fixture(scope="session")
def class_path(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The jars, and the programs."""
    for tool in ("java", "javac", "mvn"):
        if shutil.which(tool) is None:
            pytest.skip(f"there is no {tool} here")
    made = tmp_path_factory.mktemp("java")
    shutil.copy(SOURCE / "pom.xml", made)
    jars = ["mvn", "-q", "-B", "dependency:copy-dependencies", "-DoutputDirectory=lib"]
    fetched = run(jars, made, BUILD_TIMEOUT_S)
    if fetched.returncode:
        pytest.skip(f"the Java client cannot be had here: {fetched.stdout[:300]}")
    sources = map(str, sorted(SOURCE.glob("*.java")))
    built = run(["javac", "-cp", "lib/*", "-d", "classes", *sources], made, BUILD_TIMEOUT_S)
    assert built.returncode == 0, built.stderr
    return f"{made}/classes:{made}/lib/*"
