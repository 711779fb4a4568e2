"""`milepost schemas`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from unit.cli.conftest import Line

PATH = "/admin/v2/schemas/public/default/t"
SHOWN = {"version": 0, "type": "STRING", "data": ""}


def test_get(line: Line) -> None:
    assert json.loads(line("schemas", "get", "t", "-o", "json", answers=(SHOWN,))) == SHOWN
    assert line.asked == [f"GET {PATH}/schema"]
    line("schemas", "get", "t", "-v", "2", answers=(SHOWN,))
    assert line.asked == [f"GET {PATH}/schema/2"]
    line("admin", "schemas", "get", "t", "-a", answers=({"getSchemaResponses": [SHOWN]},))
    assert line.asked == [f"GET {PATH}/schemas"]
    line("schemas", "get", "t", "-a", "-v", "2")
    assert (line.code, line.asked) == (2, [])


@pytest.mark.parametrize("definition", ['{"type": "int"}', {"type": "int"}])
def test_upload(line: Line, tmp_path: Path, definition: object) -> None:
    file = tmp_path / "schema.json"
    file.write_text(json.dumps({"type": "AVRO", "schema": definition}), "utf-8")
    line("schemas", "upload", "t", "-f", str(file), answers=({"version": {"version": 3}},))
    assert "version 3" in line.err
    assert (line.asked, line.body) == (
        [f"POST {PATH}/schema"],
        {"type": "AVRO", "schema": '{"type": "int"}'},
    )
    answer = {"compatibility": False, "schemaCompatibilityStrategy": "FULL"}
    shown = line("schemas", "compatibility", "t", "-f", str(file), "-o", "json", answers=(answer,))
    assert json.loads(shown) == answer


@pytest.mark.parametrize("text", ["", "{", "[]", '{"type": "AVRO"}', "[" * 100_000])
def test_files_that_are_no_schema(line: Line, tmp_path: Path, text: str) -> None:
    file = tmp_path / "schema.json"
    file.write_text(text, "utf-8")
    line("schemas", "upload", "t", "-f", str(file))
    assert (line.code, line.asked) == (2, [])
    assert "schema.json" in line.err


def test_delete(line: Line) -> None:
    line("schemas", "delete", "t", answers=({}, {"version": 1}))
    assert line.asked == [f"GET {PATH}/schema", f"DELETE {PATH}/schema?force=false"]
    line("schemas", "delete", "t", "-f", answers=({}, {"version": -1}))
    assert line.asked[-1] == f"DELETE {PATH}/schema?force=true"
    line("schemas", "delete", "t", answers=(404,))
    assert (line.code, len(line.asked)) == (5, 1)
