"""The whole tour, with its second half: events archived by Spark, verified, a picture written."""

from __future__ import annotations

import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

from pyspark.sql import SparkSession

TOUR_SECONDS_MAX = 800  # two minutes on an idle machine, and less


def test_the_tour_ends_with_a_picture(spark: SparkSession, tmp_path: Path) -> None:
    # The session is there for its check of Java only: the tour has one of its own.
    done = subprocess.run(
        [sys.executable, "-m", "milepost.cli.tour.demo", "--out", str(tmp_path / "out")],
        capture_output=True,
        text=True,
        timeout=TOUR_SECONDS_MAX,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    steps = re.findall(r"^(\d+)\. ", done.stdout, re.MULTILINE)
    assert steps == [str(number) for number in range(1, 11)]
    assert "10,000 messages in" in done.stdout
    assert "10,000 compared, every index once" in done.stdout
    page = tmp_path / "out" / "progress.html"
    assert f"open {page}" in done.stdout
    tags: list[str] = []
    parser = HTMLParser()
    parser.handle_starttag = lambda tag, attrs: tags.append(tag)  # type: ignore[method-assign]
    parser.feed(page.read_text("utf-8"))
    assert tags.count("img") == 5
    assert (tmp_path / "out" / "backlog.png").read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"
