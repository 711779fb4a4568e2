"""HTTP lookup: which broker serves a topic, for clients given an `http://` service URL.

There is one broker, so the answer is always this one. `brokerUrlTls` and `httpUrlTls` are there also
where there is no TLS: the C++ client, and the Python client on it, fail when the first is missing.
"""

from __future__ import annotations

from fastapi import APIRouter
from fastapi.responses import PlainTextResponse, Response
from pydantic import BaseModel

from milepost.broker.auth.operations import Operation
from milepost.broker.broker import Broker
from milepost.rest.bundles import BUNDLE
from milepost.rest.permission import needs
from milepost.rest.request import AskedBroker, AskedTopic

router = APIRouter(tags=["lookup"])


class LookupData(BaseModel):
    """Names as on the wire."""

    brokerUrl: str
    brokerUrlTls: str = ""
    httpUrl: str
    httpUrlTls: str = ""
    nativeUrl: str


@router.get(
    "/lookup/v2/topic/{domain:domain}/{tenant}/{namespace}/{topic}",
    dependencies=[needs(Operation.LOOK_UP)],
)
async def look_up(broker: AskedBroker, name: AskedTopic) -> LookupData:
    broker.directory.check_namespace(name)
    broker.counters.lookups += 1
    url = broker.lookup_url()
    return LookupData(
        brokerUrl=url,
        brokerUrlTls=broker.lookup_url_tls(),
        httpUrl=http_url(broker),
        httpUrlTls=https_url(broker),
        nativeUrl=url,
    )


@router.get(
    "/lookup/v2/topic/{domain:domain}/{tenant}/{namespace}/{topic}/bundle",
    response_class=PlainTextResponse,
    dependencies=[needs(Operation.LOOK_UP)],
)
async def get_bundle(broker: AskedBroker, name: AskedTopic) -> Response:
    """The range of hashes that a topic's bundle has: of one broker, all of them."""
    broker.directory.check_namespace(name)
    return PlainTextResponse(BUNDLE)


def http_url(broker: Broker) -> str:
    """Where this edge is reached: the host that clients are told, and the HTTP port."""
    return broker.settings.url("http", broker.http_port)


def https_url(broker: Broker) -> str:
    return broker.settings.url("https", broker.https_port)


def broker_name(broker: Broker) -> str:
    """Host and HTTP port: how brokers are called."""
    return (http_url(broker) or https_url(broker)).partition("://")[2]
