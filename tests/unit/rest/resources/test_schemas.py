"""Schemas over REST: upstream's paths, JSON and statuses."""

from __future__ import annotations

import json
from typing import Any

import pytest

from rest.conftest import Ask, Request

PATH = "/admin/v2/schemas/public/default/t"
AVRO = json.dumps({"type": "record", "name": "R", "fields": [{"name": "a", "type": "int"}]})
GROWN = json.dumps(
    {
        "type": "record",
        "name": "R",
        "fields": [{"name": "a", "type": "int"}, {"name": "b", "type": "int", "default": 0}],
    }
)
BROKEN = json.dumps({"type": "record", "name": "R", "fields": [{"name": "b", "type": "int"}]})


def post(schema: str, kind: str = "AVRO", to: str = "schema", **more: Any) -> Request:
    body = {"type": kind, "schema": schema, "properties": {"p": "q"}, **more}
    return Request("POST", f"{PATH}/{to}", json.dumps(body).encode())


def delete(query: str = "") -> Request:
    return Request("DELETE", f"{PATH}/schema{query}", b"")


def test_a_topic_without_one(ask: Ask) -> None:
    latest, version, all_of_them, metadata = ask(
        f"GET {PATH}/schema", f"GET {PATH}/schema/0", f"GET {PATH}/schemas", f"GET {PATH}/metadata"
    )
    assert (latest.status, version.status) == (404, 404)
    assert "has no schema" in latest.json["reason"]
    assert (all_of_them.status, all_of_them.json) == (200, {"getSchemaResponses": []})
    assert (metadata.status, metadata.json) == (200, None)


def test_versions(ask: Ask) -> None:
    first, again, second, latest, zero, two, every, metadata = ask(
        post(AVRO),
        post(AVRO),
        post(GROWN),
        f"GET {PATH}/schema",
        f"GET {PATH}/schema/0?authoritative=true",
        f"GET {PATH}/schema/2",
        f"GET {PATH}/schemas",
        f"GET {PATH}/metadata",
    )
    assert (first.status, first.json) == (200, {"version": {"version": 0}})
    assert again.json == first.json
    assert second.json == {"version": {"version": 1}}
    shown = latest.json
    assert shown.pop("timestamp") > 1_700_000_000_000
    assert shown == {"version": 1, "type": "AVRO", "data": GROWN, "properties": {"p": "q"}}
    assert zero.json["data"] == AVRO
    assert two.status == 404
    assert [one["version"] for one in every.json["getSchemaResponses"]] == [0, 1]
    assert metadata.json["info"]["version"] == 1
    assert [one["version"] for one in metadata.json["index"]] == [0, 1]


@pytest.mark.parametrize(
    ("body", "status", "why"),
    [
        ({"type": "AVRO", "schema": BROKEN}, 409, "under FULL"),
        ({"type": "STRING", "schema": ""}, 409, "the topic has a AVRO schema, not STRING"),
        ({"type": "AVRO", "schema": '{"type":'}, 422, "not JSON"),
        ({"type": "STRING", "schema": "zzz"}, 422, "STRING schema with a definition"),
        ({"type": "AUTO_CONSUME", "schema": ""}, 422, "a client's own"),
        ({"type": "KEY_VALUE", "schema": "x"}, 422, "not JSON"),
        ({"type": "NOPE", "schema": ""}, 400, "'NOPE'; known are"),
        ({"type": "AVRO"}, 400, "body schema"),
        ({"schema": ""}, 400, "body type"),
        ({"type": "STRING", "schema": 5}, 400, "body schema"),
        ({"type": "STRING", "schema": "", "properties": {"a": 5}}, 400, "body properties"),
        ([], 400, "body"),
        ({"type": "EXTERNAL", "schema": "\ud800"}, 400, "a character that is none"),
        ({"type": "STRING", "schema": "", "properties": {"a": "\ud800"}}, 400, "that is none"),
    ],
)
def test_what_is_refused(ask: Ask, body: Any, status: int, why: str) -> None:
    made, refused, after = ask(
        post(AVRO),
        Request("POST", f"{PATH}/schema", json.dumps(body).encode()),
        f"GET {PATH}/schemas",
    )
    assert made.status == 200
    assert refused.status == status, refused.body
    assert why in refused.json["reason"]
    assert len(after.json["getSchemaResponses"]) == 1


def test_names_that_are_none(ask: Ask) -> None:
    wrong = json.dumps({"type": "STRING", "schema": ""}).encode()
    text, nowhere, unknown, gone = ask(
        f"GET {PATH}/schema/abc",
        Request("POST", "/admin/v2/schemas/public/nope/t/schema", wrong),
        "GET /admin/v2/schemas/public/nope/t/schema",
        Request("DELETE", "/admin/v2/schemas/public/nope/t/schema", b""),
    )
    assert text.status == 400
    assert (nowhere.status, unknown.status, gone.status) == (404, 404, 404)
    assert "namespace public/nope" in nowhere.json["reason"]


def test_deletion(ask: Ask) -> None:
    _, deleted, latest, old, every, made, erased, after = ask(
        post(AVRO),
        delete(),
        f"GET {PATH}/schema",
        f"GET {PATH}/schema/0",
        f"GET {PATH}/schemas",
        post(BROKEN),
        delete("?force=true"),
        f"GET {PATH}/schema",
    )
    assert (deleted.status, deleted.json) == (200, {"version": 1})
    assert (latest.status, old.status) == (404, 404)
    assert every.json == {"getSchemaResponses": []}
    assert made.json == {"version": {"version": 2}}
    assert erased.json == {"version": -1}
    assert after.status == 404


def test_compatibility_is_a_question(ask: Ask) -> None:
    empty, _, yes, no, other, broken, every = ask(
        post(AVRO, to="compatibility"),
        post(AVRO),
        post(GROWN, to="compatibility"),
        post(BROKEN, to="compatibility"),
        post("", "STRING", to="compatibility"),
        post("{", to="compatibility"),
        f"GET {PATH}/schemas",
    )
    assert (empty.status, empty.json["compatibility"]) == (202, True)
    assert (yes.status, yes.json) == (
        202,
        {"compatibility": True, "schemaCompatibilityStrategy": "FULL"},
    )
    assert (no.status, no.json["compatibility"]) == (202, False)
    assert (other.status, other.json["compatibility"]) == (202, False)
    assert broken.status == 422
    assert len(every.json["getSchemaResponses"]) == 1


def test_the_version_of_a_schema(ask: Ask) -> None:
    _, known, unknown = ask(post(AVRO), post(AVRO, to="version"), post(GROWN, to="version"))
    assert (known.status, known.json) == (200, {"version": 0})
    assert unknown.json == {"version": -1}


def test_key_values_are_json(ask: Ask) -> None:
    pair = json.dumps({"key": "", "value": json.loads(AVRO)}, separators=(",", ":"))
    properties = {"key.schema.type": "STRING", "value.schema.type": "AVRO"}
    made, shown, found = ask(
        post(pair, "KEY_VALUE", properties=properties),
        f"GET {PATH}/schema",
        post(pair, "KEY_VALUE", to="version", properties=properties),
    )
    assert made.status == 200, made.body
    assert (shown.json["type"], shown.json["data"]) == ("KEY_VALUE", pair)
    assert found.json == {"version": 0}


def test_no_schema_has_a_type(ask: Ask) -> None:
    made, shown = ask(post("", "BYTES", properties=None), f"GET {PATH}/schema")
    assert made.status == 200
    assert (shown.json["type"], shown.json["properties"]) == ("NONE", {})


def test_operators_register_where_clients_may_not(ask: Ask) -> None:
    (made,) = ask(post(AVRO), allow_auto_update_schema=False)
    assert made.status == 200


def test_they_are_counted(ask: Ask) -> None:
    _, _, _, _, metrics = ask(post(AVRO), post(BROKEN), post("{"), delete(), "GET /metrics/")
    text = metrics.body.decode()
    for line in (
        "milepost_schemas_registered_total 1.0",
        "milepost_schemas_incompatible_total 1.0",
        "milepost_schemas_invalid_total 1.0",
        "milepost_schemas_deleted_total 1.0",
        'pulsar_schema_incompatible_total{cluster="standalone"} 1.0',
        'milepost_schemas{cluster="standalone"} 0.0',
    ):
        assert line in text
