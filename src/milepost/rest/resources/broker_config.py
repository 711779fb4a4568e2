"""The settings of the broker: shown, and changed while it runs.

    POST /admin/v2/brokers/configuration/maxProducersPerTopic/5
    GET  /admin/v2/brokers/configuration/runtime

Settings are named as in Pulsar's `broker.conf`, and all values are text, as upstream has them.
"""

from __future__ import annotations

from pydantic import BaseModel

from milepost.broker import dynamic_settings
from milepost.broker.auth.operations import Operation
from milepost.rest.audit import Asked
from milepost.rest.request import ADMIN, AskedBroker
from milepost.rest.route_access import Router

router = Router("brokers", Operation.SUPERUSER, prefix=f"{ADMIN}/brokers")


class InternalConfiguration(BaseModel):
    """Where upstream keeps its metadata. Here it is a file of the data directory, and no server's."""

    zookeeperServers: str = ""
    configurationStoreServers: str = ""
    metadataStoreUrl: str
    configurationMetadataStoreUrl: str
    ledgersRootPath: str = "/ledgers"


@router.get("/configuration")
async def get_dynamic_names() -> list[str]:
    """Which settings may change while the broker runs; those of machinery that is not here are kept only."""
    return dynamic_settings.live_keys()


@router.get("/configuration/values")
async def get_dynamic_values(broker: AskedBroker) -> dict[str, str]:
    """Those that were changed."""
    return broker.dynamic.values()


@router.get("/configuration/runtime")
async def get_runtime_values(broker: AskedBroker) -> dict[str, str]:
    """Every setting as it is now; secrets are hidden."""
    return dynamic_settings.runtime(broker.settings) | broker.dynamic.kept


@router.get("/internal-configuration")
async def get_internal_configuration(broker: AskedBroker) -> InternalConfiguration:
    url = f"sqlite://{broker.settings.data.resolve()}/catalog.sqlite"
    return InternalConfiguration(metadataStoreUrl=url, configurationMetadataStoreUrl=url)


@router.post("/configuration/{setting}/{value:path}")
async def set_dynamic_value(asked: Asked, setting: str, value: str) -> None:
    """Change a setting now, and for every start that follows; 412 for one that may not."""
    await asked.broker.dynamic.set(setting, value)
    asked.note("set-dynamic-setting", setting, value=value)


@router.delete("/configuration/{setting}")
async def remove_dynamic_value(asked: Asked, setting: str) -> None:
    """Back to what the broker was started with."""
    await asked.broker.dynamic.remove(setting)
    asked.note("remove-dynamic-setting", setting)


@router.get("/backlog-quota-check", status_code=204)
async def check_quotas(broker: AskedBroker) -> None:
    """Look for backlogs past their quota now, and do what their policies say."""
    broker.housekeeping.check_quotas()
