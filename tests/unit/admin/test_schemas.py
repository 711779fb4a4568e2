"""Schemas: what each call asks, and what it makes of the answer."""

from __future__ import annotations

import json

from unit.admin.conftest import Played

from milepost.admin import schemas
from milepost.admin.face import SyncFace

SCHEMA = {"type": "STRING", "schema": "", "properties": {}}
PATH = "/admin/v2/schemas/public/default/t"


def test_what_is_there() -> None:
    shown = {"version": 1, **SCHEMA}
    transport = Played(shown, shown, {"getSchemaResponses": [shown]})
    face = SyncFace(transport)
    assert face.run(schemas.get_schema("t")) == shown
    assert face.run(schemas.get_schema("t", 0)) == shown
    assert face.run(schemas.get_all_schemas("t")) == [shown]
    assert [one.target for one in transport.asked] == [
        f"{PATH}/schema",
        f"{PATH}/schema/0",
        f"{PATH}/schemas",
    ]


def test_what_is_sent() -> None:
    verdict = {"compatibility": False, "schemaCompatibilityStrategy": "FULL"}
    transport = Played({"version": {"version": 3}}, verdict, {"version": -1}, {"version": 4})
    face = SyncFace(transport)
    assert face.run(schemas.create_schema("t", SCHEMA)) == 3
    assert face.run(schemas.get_schema_compatibility("t", SCHEMA)) == verdict
    assert face.run(schemas.get_schema_version("t", SCHEMA)) == -1
    face.run(schemas.delete_schema("t", force=True))
    assert [f"{one.method} {one.target}" for one in transport.asked] == [
        f"POST {PATH}/schema",
        f"POST {PATH}/compatibility",
        f"POST {PATH}/version",
        f"DELETE {PATH}/schema?force=true",
    ]
    assert all(json.loads(one.body or b"") == SCHEMA for one in transport.asked[:3])
