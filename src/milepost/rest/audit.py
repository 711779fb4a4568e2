"""What an operator asks of the broker, and the audit log: a line for each change, with before and after.

The logger is called `milepost.audit`, so that it can be kept apart. A line has names and numbers, never
what a message says.

    async def delete_tenant(asked: Asked, name: AskedTenant) -> None:
        await asked.broker.directory.delete_tenant(name)
        asked.note("delete-tenant", name)
"""

from __future__ import annotations

import logging
from typing import Annotated

from fastapi import Depends, Request

from milepost.broker.broker import Broker
from milepost.rest.route_access import who

logger = logging.getLogger("milepost.audit")


class OperatorRequest:
    def __init__(self, request: Request) -> None:
        self.request = request
        self.broker: Broker = request.app.state.broker

    def note(self, action: str, what: object, **values: object) -> None:
        """Log that the caller did something to an object; `values` say where it stood and stands."""
        told = "".join(f" {name}={_shown(value)}" for name, value in values.items())
        logger.info("%s %s by %s%s", action, what, who(self.request), told)


async def _asked(request: Request) -> OperatorRequest:
    return OperatorRequest(request)


Asked = Annotated[OperatorRequest, Depends(_asked)]


def _shown(value: object) -> str:
    """A list as its words: `produce,consume`."""
    if isinstance(value, list | tuple | set | frozenset) and not hasattr(value, "_fields"):
        return ",".join(map(str, value))
    return str(value)
