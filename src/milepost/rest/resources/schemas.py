"""The versions of a topic's schema: registered, looked up, compared, deleted.

Paths, JSON and statuses are upstream's, but where upstream fails: a schema that is not compatible is the
answer `false` of `compatibility`, and no error; a type or version that is none is a 400. Definitions of
key-value schemas are JSON here, `{"key": …, "value": …}`.
"""

from __future__ import annotations

from typing import Annotated

from fastapi import Depends, Path
from pydantic import BaseModel, Field

from milepost.broker.auth.operations import Operation
from milepost.errors import IncompatibleSchema, InvalidInput, InvalidSchema, SchemaNotFound
from milepost.positions.names import TopicName
from milepost.rest.request import ADMIN, AskedBroker, Authoritative, topic_name
from milepost.rest.route_access import Router
from milepost.schemas.history import Live
from milepost.schemas.key_value import data_from_json, data_to_json
from milepost.schemas.types import SchemaInfo, SchemaType

router = Router("schemas", prefix=f"{ADMIN}/schemas/{{tenant}}/{{namespace}}/{{topic}}")


class PostSchemaPayload(BaseModel):
    """A schema: the name of its type, and its definition as text."""

    type: str
    definition: str = Field(alias="schema")
    properties: dict[str, str] | None = None

    def info(self) -> SchemaInfo:
        try:
            kind = SchemaType.named(self.type)
        except InvalidSchema as failure:
            raise InvalidInput(str(failure)) from None
        if kind is SchemaType.BYTES:
            kind = SchemaType.NONE  # what is stored, and given back, for "no schema"
        properties = self.properties or {}
        try:
            data = self.definition.encode()
            "".join([*properties, *properties.values()]).encode()
        except UnicodeEncodeError:  # half of a surrogate pair, which JSON can write
            raise InvalidInput("the schema has a character that is none") from None
        if kind is SchemaType.KEY_VALUE:
            data = data_from_json(self.definition)
        return SchemaInfo("", kind, data, properties)


class GetSchemaResponse(BaseModel):
    version: int
    type: str
    timestamp: int
    data: str
    properties: dict[str, str]


class GetAllVersionsSchemaResponse(BaseModel):
    getSchemaResponses: list[GetSchemaResponse]


class VersionResponse(BaseModel):
    version: int


class PostSchemaResponse(BaseModel):
    version: VersionResponse


class IsCompatibilityResponse(BaseModel):
    compatibility: bool
    schemaCompatibilityStrategy: str


class SchemaPosition(BaseModel):
    """Where upstream stores a version; here it is in the catalog, which has no ledgers."""

    ledgerId: int = -1
    entryId: int = -1
    version: int


class SchemaMetadata(BaseModel):
    info: SchemaPosition
    index: list[SchemaPosition]


async def _name(
    tenant: str, namespace: str, topic: str, authoritative: Authoritative = False
) -> TopicName:
    return topic_name("persistent", tenant, namespace, topic)


Name = Annotated[TopicName, Depends(_name)]


@router.get("/schema", Operation.LOOK_UP)
async def get_schema(broker: AskedBroker, name: Name) -> GetSchemaResponse:
    """The latest version."""
    return _response(name, await broker.schemas.latest(name))


@router.get("/schema/{version}", Operation.LOOK_UP)
async def get_schema_version(
    broker: AskedBroker, name: Name, version: Annotated[int, Path()]
) -> GetSchemaResponse:
    """One version, if it is not deleted."""
    return _response(name, await broker.schemas.get(name, version))


@router.get("/schemas", Operation.LOOK_UP)
async def get_all_schemas(broker: AskedBroker, name: Name) -> GetAllVersionsSchemaResponse:
    """Every version that is not deleted, oldest first."""
    live = (await broker.schemas.history(name)).live
    return GetAllVersionsSchemaResponse(getSchemaResponses=[_response(name, one) for one in live])


@router.get("/metadata", Operation.LOOK_UP)
async def get_schema_metadata(broker: AskedBroker, name: Name) -> SchemaMetadata | None:
    """The numbers of all versions; null for a topic without a schema."""
    index = [
        SchemaPosition(version=one.number) for one in (await broker.schemas.history(name)).live
    ]
    return SchemaMetadata(info=index[-1], index=index) if index else None


@router.post("/schema", Operation.PRODUCE)
async def post_schema(
    broker: AskedBroker, name: Name, payload: PostSchemaPayload
) -> PostSchemaResponse:
    """Register a schema, as an operator: also where clients may not. 409 if it is not compatible, 422
    if its definition cannot be read."""
    broker.directory.check_namespace(name)
    version = await broker.schemas.register(name, payload.info())
    return PostSchemaResponse(version=VersionResponse(version=version))


@router.delete("/schema", Operation.ADMINISTER_TOPIC)
async def delete_schema(broker: AskedBroker, name: Name, force: bool = False) -> VersionResponse:
    """Delete every version; with `force` from the disk too. Numbers go on where they were."""
    broker.directory.check_namespace(name)
    return VersionResponse(version=await broker.schemas.delete(name, force=force))


@router.post("/compatibility", Operation.ADMINISTER_TOPIC, status_code=202)
async def check_compatibility(
    broker: AskedBroker, name: Name, payload: PostSchemaPayload
) -> IsCompatibilityResponse:
    """Whether a schema could be registered; nothing is."""
    strategy = broker.schemas.rules(name).strategy
    try:
        await broker.schemas.check(name, payload.info())
    except IncompatibleSchema:
        is_compatible = False
    else:
        is_compatible = True
    return IsCompatibilityResponse(
        compatibility=is_compatible, schemaCompatibilityStrategy=strategy.value
    )


@router.post("/version", Operation.LOOK_UP)
async def get_version_by_schema(
    broker: AskedBroker, name: Name, payload: PostSchemaPayload
) -> VersionResponse:
    """The version with the very same definition; -1 if there is none."""
    return VersionResponse(version=await broker.schemas.find_exact(name, payload.info()))


def _response(name: TopicName, live: Live | None) -> GetSchemaResponse:
    if live is None:
        raise SchemaNotFound(f"{name} has no schema, or no such version of it")
    info = live.info
    is_pair = info.type is SchemaType.KEY_VALUE
    return GetSchemaResponse(
        version=live.number,
        type=info.type.name,
        timestamp=live.time_ms,
        data=data_to_json(info) if is_pair else info.data.decode(errors="replace"),
        properties=info.properties,
    )
