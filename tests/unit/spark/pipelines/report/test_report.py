"""The page is whole by itself, its pictures are pictures, and nobody's name is markup."""

from __future__ import annotations

import base64
import csv
import hashlib
import io
import json
import re
import struct
import zlib
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from milepost.spark.pipelines.progress import Tables
from milepost.spark.pipelines.report.page import page
from milepost.spark.pipelines.report.pictures import draw, label, lines
from milepost.spark.pipelines.report.report import write_report

EVIL = "<script>alert(1)</script>$x$&\"'"


def group(name: str = "s", **more: Any) -> dict[str, Any]:
    return {"topic": "persistent://public/default/t", "subscription": name, "member": "", **more}


def tables(groups: int) -> Tables:
    names = [EVIL, "_hidden", *map(str, range(groups))][:groups]
    return Tables(
        groups=[
            group(
                name,
                backlog_max=5,
                backlog_last=3,
                behind_max_ms=1500,
                behind_last_ms=200_000,
                verdict="STALLED" if n % 2 == 0 else "CONSUMING",
            )
            for n, name in enumerate(names)
        ],
        timeline=[
            group(
                name,
                at_ms=at * 1000,
                backlog=at,
                behind_ms=at,
                inflight_ms=2 * at,
                first=0,
                mark_delete=1,
                end=4 + at,
                strip_inflight=1,
                strip_ready=at,
                strip_delayed=1,
            )
            for name in names
            for at in range(3)
        ],
        latency=[
            group(name, acked=4, mean_ms=1.5, p50_ms=1, p95_ms=2, p99_ms=2, max_ms=3, untimed=0)
            for name in names
        ],
        holes=[
            group(name, partition=-1, index=7 + n, age_ms=900, is_open=n % 2 == 0, holder=EVIL)
            for n, name in enumerate(names)
        ],
        resets=[{"topic": "t", "subscription": EVIL, "at_ms": 5, "by": None, "to": 3}],
        first_ms=0,
        last_ms=2000,
        samples=3,
    )


def size_of(png: bytes) -> tuple[int, int]:
    """Read a PNG to its last byte: every checksum, every row of pixels."""
    assert png[:8] == b"\x89PNG\r\n\x1a\n"
    at, pixels, size, kinds = 8, b"", (0, 0), []
    while at < len(png):
        (length,) = struct.unpack(">I", png[at : at + 4])
        kind, body = png[at + 4 : at + 8], png[at + 8 : at + 8 + length]
        assert zlib.crc32(kind + body) == int.from_bytes(png[at + 8 + length : at + 12 + length])
        kinds.append(kind)
        if kind == b"IHDR":
            width, height, depth, colour = struct.unpack(">IIBB", body[:10])
            assert (depth, colour) == (8, 6)
            size = (width, height)
        pixels += body if kind == b"IDAT" else b""
        at += 12 + length
    assert kinds[-1] == b"IEND"
    assert len(zlib.decompress(pixels)) == size[1] * (1 + 4 * size[0])
    return size


class Page(HTMLParser):
    """Which tags there are, what they load, and the cells of every table."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.sources: list[str] = []
        self.cells: list[str] = []
        self._open: list[str] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.sources += [value or "" for name, value in attrs if name in ("src", "href")]
        if tag not in ("meta", "img"):
            self._open.append(tag)
        if tag == "td":
            self.cells.append("")

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self._open and self._open[-1] == "td":
            self.cells[-1] += data


@pytest.mark.parametrize("groups", [0, 1, 15])
def test_the_page_needs_nothing_else_and_shows_everything(tmp_path: Path, groups: int) -> None:
    found = tables(groups)
    page_path, *others = write_report(found, tmp_path / "report")
    text = page_path.read_text("utf-8")
    read_page = Page(text)
    assert read_page._open == []
    assert read_page.tags.count("script") == 2  # the numbers, and what draws them
    assert read_page.tags.count("img") == (5 if groups else 0)
    assert all(source.startswith("data:image/png;base64,") for source in read_page.sources)
    inlined = [base64.b64decode(source.partition(",")[2]) for source in read_page.sources]
    assert all(min(size_of(png)) > 200 for png in inlined)
    pictures = {path.name: path.read_bytes() for path in others if path.suffix == ".png"}
    assert not groups or sorted(pictures.values()) == sorted(inlined)
    assert read_page.cells.count(EVIL) == (1 if not groups else 4 + groups)
    assert ("1.5 s" in read_page.cells) == bool(groups)
    assert not re.search("https?:", text.replace("http://www.w3.org/2000/svg", ""))
    (groups_csv,) = [path for path in others if path.name == "groups.csv"]
    read = list(csv.DictReader(io.StringIO(groups_csv.read_text("utf-8"))))
    assert [row["subscription"] for row in read] == [row["subscription"] for row in found.groups]
    assert not list((tmp_path / "report").glob(".*"))


def test_the_verdict_comes_first() -> None:
    text = page(tables(4), draw(tables(4)))
    head = text[text.index("<body>") : text.index("<h2>")]
    assert "2 of 4 groups in trouble at the end" in head
    assert "3 messages behind, the first of them for 3 min 20 s" in head
    assert "index 7 held by" in head
    well = tables(4)._replace(groups=[row | {"verdict": "SLOW"} for row in tables(4).groups])
    assert "All 4 groups are well" in page(well, draw(well))


def test_only_the_own_script_may_run_and_no_name_ends_the_numbers() -> None:
    text = page(tables(3), draw(tables(3)))
    allowed = re.search(r"script-src 'sha256-([^']+)'", text)
    (own,) = re.findall(r"<script>(.*?)</script>", text, re.DOTALL)
    assert allowed is not None
    assert base64.b64decode(allowed[1]) == hashlib.sha256(own.encode()).digest()
    (numbers,) = re.findall(r'<script type="application/json" id="data">(.*?)</script>', text)
    read = json.loads(numbers)
    assert read["groups"][0]["label"].startswith("<script>alert(1)")
    assert [point["end"] for point in read["groups"][0]["points"]] == [4, 5, 6]


def test_all_held_messages_are_listed_open_ones_first() -> None:
    found = tables(15)
    many = [
        group("s", partition=0, index=n, age_ms=n, is_open=n == 3, holder="") for n in range(300)
    ]
    found = found._replace(holes=many)
    cells = Page(page(found, draw(found))).cells
    opened = cells.index("yes")
    ages = [cell for cell in cells[opened - 1 :] if cell.endswith(" ms")]
    assert ages[:3] == ["3 ms", "299 ms", "298 ms"]
    assert all(f"{n} ms" in cells for n in range(300))


def test_the_same_numbers_are_the_same_pictures() -> None:
    found = tables(3)
    pictures = [lines("Backlog", "messages", found.timeline, "backlog") for _ in range(2)]
    assert pictures[0] == pictures[1]


def test_a_label_is_short() -> None:
    assert label(group("billing")) == "billing on t"
    assert label(group("caches") | {"member": "c-1"}) == "caches/c-1 on t"
    assert len(label(group("x" * 200))) == 48
