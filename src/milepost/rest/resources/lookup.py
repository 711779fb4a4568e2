"""HTTP lookup: which broker serves a topic.

The answer is this broker, or the worker that has the topic. `brokerUrlTls` and `httpUrlTls` are there also
where there is no TLS: the C++ client, and the Python client on it, fail when the first is missing.
"""

from __future__ import annotations

from typing import Annotated

from fastapi import Header, Query
from fastapi.responses import PlainTextResponse, Response
from pydantic import BaseModel

from milepost.broker.auth.operations import Operation
from milepost.rest.hosts import http_url, https_url
from milepost.rest.request import AskedBroker, AskedTopic
from milepost.rest.resources.bundles import bundles_of
from milepost.rest.route_access import Router

router = Router("lookup")


class LookupData(BaseModel):
    """Names as on the wire."""

    brokerUrl: str
    brokerUrlTls: str = ""
    httpUrl: str
    httpUrlTls: str = ""
    nativeUrl: str


@router.get("/lookup/v2/topic/{domain:domain}/{tenant}/{namespace}/{topic}", Operation.LOOK_UP)
async def look_up(
    broker: AskedBroker,
    name: AskedTopic,
    listener: Annotated[str, Query(alias="listenerName")] = "",
    listener_header: Annotated[str, Header(alias="X-Pulsar-ListenerName")] = "",
) -> LookupData:
    """On the listener that the client names; one that is not there is 412."""
    broker.directory.check_namespace(name)
    if broker.workers is not None:
        await broker.workers.owned(broker.workers.placement.shard_of(name))
    listener = listener_header or listener
    url = broker.lookup_url(listener, name)
    broker.counters.lookups += 1
    listener_url = broker.settings.listener_url
    return LookupData(
        brokerUrl=url,
        brokerUrlTls=broker.lookup_url_tls(listener, name),
        httpUrl=listener_url(listener, "http", broker.http_port) or http_url(broker),
        httpUrlTls=listener_url(listener, "https", broker.https_port) or https_url(broker),
        nativeUrl=url,
    )


@router.get(
    "/lookup/v2/topic/{domain:domain}/{tenant}/{namespace}/{topic}/bundle",
    Operation.LOOK_UP,
    response_class=PlainTextResponse,
)
async def get_bundle(broker: AskedBroker, name: AskedTopic) -> Response:
    """The range of hashes that a topic's bundle has."""
    broker.directory.check_namespace(name)
    return PlainTextResponse(bundles_of(broker, name.namespace).of(str(name)))
