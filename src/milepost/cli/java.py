"""Checks that there is a Java that Spark can use.

Spark itself would say it in a page of text, so this comes first.

>>> release('openjdk version "17.0.15" 2025-04-15'), release('java version "1.8.0_402"'), release("?")
(17, 8, 0)
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

RELEASE_MIN = 17
HINT = (
    f"Spark needs Java {RELEASE_MIN} or newer: install it (Debian: apt install "
    f"openjdk-{RELEASE_MIN}-jre-headless), or set JAVA_HOME"
)


def missing() -> str | None:
    """What to do to get one; None if there is one."""
    home = os.environ.get("JAVA_HOME")
    java = str(Path(home, "bin", "java")) if home else shutil.which("java")
    if java is None:
        return HINT
    try:
        said = subprocess.run(  # noqa: S603  # the Java that Spark will start
            [java, "-version"], capture_output=True, text=True, timeout=30, check=False
        ).stderr
    except (OSError, subprocess.TimeoutExpired):
        return f"{HINT}; {java} cannot be run"
    found = release(said)
    return None if found >= RELEASE_MIN else f"{HINT}; {java} is release {found or 'unknown'}"


def release(said: str) -> int:
    """Of what `java -version` says; 0 if it cannot be told."""
    found = re.search(r'version "(?:1\.)?(\d+)', said)
    return int(found[1]) if found else 0
