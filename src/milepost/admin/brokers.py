"""Calls about brokers: list, health, settings."""

from __future__ import annotations

from milepost.admin.request import Json, Script, delete, get, path, post

_BROKERS = "admin/v2/brokers"
# In lower case, as answers have them.
PRODUCT_HEADER = "x-milepost-version"


def list_brokers(cluster: str = "") -> Script[list[str]]:
    """Those of a cluster; of the one that is asked if none is named."""
    return (yield get(path(_BROKERS, cluster) if cluster else path(_BROKERS))).strings()


def check_health() -> Script[str]:
    """`ok`, after a round trip through the storage; `ServerFault` otherwise."""
    return (yield get("/admin/v2/brokers/health")).text()


def get_version() -> Script[str]:
    return (yield get("/admin/v2/brokers/version")).text()


def is_milepost() -> Script[bool]:
    """Is it a Milepost broker, and not Apache Pulsar? Its answers say so in a header."""
    return PRODUCT_HEADER in (yield get("/admin/v2/brokers/version")).headers


def get_leader_broker() -> Script[Json]:
    return (yield get(path(_BROKERS, "leaderBroker"))).object()


def get_owned_namespaces(cluster: str, broker: str) -> Script[Json]:
    """The bundles that a broker serves, by `tenant/namespace/bundle`."""
    return (yield get(path(_BROKERS, cluster, broker, "ownedNamespaces"))).object()


def list_dynamic_settings() -> Script[list[str]]:
    """Those that may change while the broker runs."""
    return (yield get(path(_BROKERS, "configuration"))).strings()


def get_dynamic_settings() -> Script[dict[str, str]]:
    """Those that were changed."""
    return (yield get(path(_BROKERS, "configuration", "values"))).object()


def get_runtime_settings() -> Script[dict[str, str]]:
    """All of them, as they are now."""
    return (yield get(path(_BROKERS, "configuration", "runtime"))).object()


def get_internal_configuration() -> Script[Json]:
    return (yield get(path(_BROKERS, "internal-configuration"))).object()


def set_dynamic_setting(name: str, value: str) -> Script[None]:
    """`PreconditionFailed` for one that may not change while the broker runs."""
    yield post(path(_BROKERS, "configuration", name, value))


def remove_dynamic_setting(name: str) -> Script[None]:
    yield delete(path(_BROKERS, "configuration", name))


def check_backlog_quotas() -> Script[None]:
    """Now, and not at the next interval."""
    yield get(path(_BROKERS, "backlog-quota-check"))


def get_broker_topics() -> Script[Json]:
    """Numbers of every topic that a broker has open: namespace, bundle, domain, topic."""
    return (yield get("/admin/v2/broker-stats/topics")).object()
