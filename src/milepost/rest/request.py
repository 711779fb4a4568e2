"""What handlers take from a request: the broker, and names made of path parts."""

from __future__ import annotations

from typing import Annotated

from fastapi import Depends, Request

from milepost.broker.broker import Broker
from milepost.positions.names import NamespaceName, TopicName


def _broker(request: Request) -> Broker:
    broker: Broker = request.app.state.broker
    return broker


def _topic(domain: str, tenant: str, namespace: str, topic: str) -> TopicName:
    return TopicName.parse(f"{domain}://{tenant}/{namespace}/{topic}")


def _namespace(tenant: str, namespace: str) -> NamespaceName:
    return NamespaceName.parse(f"{tenant}/{namespace}")


AskedBroker = Annotated[Broker, Depends(_broker)]

# Of a path with {domain}/{tenant}/{namespace}/{topic}, or with {tenant}/{namespace}. A text that is
# no name is refused before the handler runs.
AskedTopic = Annotated[TopicName, Depends(_topic)]
AskedNamespace = Annotated[NamespaceName, Depends(_namespace)]
