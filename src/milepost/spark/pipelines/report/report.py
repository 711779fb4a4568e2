"""Writes the report: one HTML page, pictures, CSV tables.

    paths = write_report(tables, Path("report"))
    paths[0]                                 # report/progress.html

The page (page.py) loads nothing: all that it needs is in it.
"""

from __future__ import annotations

import csv
import io
import os
from pathlib import Path
from typing import Final

from milepost.spark.pipelines.progress import Rows, Tables
from milepost.spark.pipelines.report.page import page
from milepost.spark.pipelines.report.pictures import draw

PAGE: Final = "progress.html"


def write_report(tables: Tables, folder: Path) -> list[Path]:
    """The page, then the pictures, then the tables; what was there under these names is replaced."""
    folder.mkdir(parents=True, exist_ok=True)
    pictures = draw(tables)
    written = {PAGE: page(tables, pictures).encode()}
    written |= pictures
    for name in ("groups", "timeline", "latency", "holes", "resets"):
        written[f"{name}.csv"] = _csv(getattr(tables, name)).encode()
    for name, data in written.items():
        staged = folder / f".{name}"
        staged.write_bytes(data)
        os.replace(staged, folder / name)
    return [folder / name for name in written]


def _csv(rows: Rows) -> str:
    out = io.StringIO()
    if rows:
        writer = csv.DictWriter(out, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    return out.getvalue()
