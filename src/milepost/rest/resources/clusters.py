"""Clusters: there is one, and this broker is it."""

from __future__ import annotations

from fastapi import Response
from pydantic import BaseModel

from milepost.broker.auth.operations import Operation
from milepost.errors import AlreadyExists, NotAllowed, NotFound
from milepost.rest.hosts import http_url
from milepost.rest.request import ADMIN, AskedBroker
from milepost.rest.route_access import Router

router = Router("clusters", prefix=f"{ADMIN}/clusters")


class ClusterData(BaseModel):
    serviceUrl: str
    brokerServiceUrl: str
    brokerClientTlsEnabled: bool = False
    tlsAllowInsecureConnection: bool = False


@router.get("", Operation.IDENTIFIED)
async def get_clusters(broker: AskedBroker) -> list[str]:
    return [broker.settings.cluster_name]


@router.get("/{cluster}", Operation.SUPERUSER)
async def get_cluster(broker: AskedBroker, cluster: str) -> ClusterData:
    if cluster != broker.settings.cluster_name:
        raise NotFound(f"cluster {cluster[:80]!a} does not exist")
    return ClusterData(serviceUrl=http_url(broker), brokerServiceUrl=broker.lookup_url())


@router.put("/{cluster}", Operation.SUPERUSER)
async def create_cluster(broker: AskedBroker, cluster: str) -> None:
    """Set-up scripts make the cluster that they find here: 409. There is no other: 405."""
    if cluster == broker.settings.cluster_name:
        raise AlreadyExists(f"cluster {cluster} exists")
    raise NotAllowed(f"there is one cluster here, {broker.settings.cluster_name}")


@router.get("/{cluster}/peers", Operation.SUPERUSER, response_class=Response)
async def get_peers(broker: AskedBroker, cluster: str) -> None:
    """None: nothing is answered, as upstream has it."""
    await get_cluster(broker, cluster)


@router.get("/{cluster}/failureDomains", Operation.SUPERUSER)
async def get_failure_domains(broker: AskedBroker, cluster: str) -> dict[str, list[str]]:
    """Groups of brokers that fail together: there are none."""
    await get_cluster(broker, cluster)
    return {}


@router.get("/{cluster}/failureDomains/{domain_name}", Operation.SUPERUSER)
async def get_failure_domain(broker: AskedBroker, cluster: str, domain_name: str) -> None:
    """404: there is none."""
    await get_cluster(broker, cluster)
    raise NotFound(f"cluster {cluster} has no failure domain {domain_name[:80]!a}")


ISOLATION = "/{cluster}/namespaceIsolationPolicies"


@router.get(ISOLATION, Operation.SUPERUSER)
@router.get(f"{ISOLATION}/{{policy}}", Operation.SUPERUSER)
@router.get(f"{ISOLATION}/brokers/{{broker_id}}", Operation.SUPERUSER)
async def get_isolation_policies(broker: AskedBroker, cluster: str) -> None:
    """404, as upstream answers while there is no policy: one broker has every namespace."""
    await get_cluster(broker, cluster)
    raise NotFound(f"cluster {cluster} has no policies of isolation")
