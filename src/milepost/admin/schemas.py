"""Calls about the schemas of topics.

One is `{"type": …, "schema": …, "properties": {…}}`, as REST has it.
"""

from __future__ import annotations

from milepost.admin.request import Json, Script, delete, get, post, schema_path


def get_schema(topic: str, version: int | None = None) -> Script[Json]:
    """The latest version, or one of them; `NotFound` if there is none."""
    rest = ("schema",) if version is None else ("schema", version)
    return (yield get(schema_path(topic, *rest))).object()


def get_all_schemas(topic: str) -> Script[list[Json]]:
    """Every version that is not deleted, oldest first."""
    answer = (yield get(schema_path(topic, "schemas"))).object()
    found: list[Json] = answer["getSchemaResponses"]
    return found


def create_schema(topic: str, schema: Json) -> Script[int]:
    """Register a schema; its version. `Conflict` if the topic's strategy does not allow it."""
    answer = (yield post(schema_path(topic, "schema"), schema)).object()
    version: int = answer["version"]["version"]
    return version


def delete_schema(topic: str, *, force: bool = False) -> Script[None]:
    """Delete every version; with `force` the definitions are erased as well."""
    yield delete(schema_path(topic, "schema"), force=force)


def get_schema_compatibility(topic: str, schema: Json) -> Script[Json]:
    """`{"compatibility": …, "schemaCompatibilityStrategy": …}`; nothing is registered."""
    return (yield post(schema_path(topic, "compatibility"), schema)).object()


def get_schema_version(topic: str, schema: Json) -> Script[int]:
    """The version with that very definition; -1 if there is none."""
    version: int = (yield post(schema_path(topic, "version"), schema)).object()["version"]
    return version
