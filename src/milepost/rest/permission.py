"""What a route needs: one word beside each route, checked before the route runs.

    @router.get("/{domain}/{tenant}/{namespace}/{topic}/stats", dependencies=[needs(LOOK_UP)])

The names in the path (`tenant`, `namespace`, `domain`, `topic`, `subscription`) say what the operation is
done to. A router all of whose routes need the same may say it once, for itself. A route that says nothing,
or two things, is found by `check_routes` when the application is made, which then does not start: nothing
is open, or closed, by accident.
"""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request
from fastapi.params import Depends
from fastapi.routing import APIRoute

from milepost.broker.auth.operations import Operation, Scope

# The path parameters that name what an operation is done to.
PARAMETERS = {
    Scope.NOTHING: (),
    Scope.BROKER: (),
    Scope.TENANT: ("tenant",),
    Scope.NAMESPACE: ("tenant", "namespace"),
    Scope.TOPIC: ("tenant", "namespace", "topic"),
}


class Need:
    """The check of one operation, as a dependency of a route."""

    def __init__(self, operation: Operation) -> None:
        self.operation = operation

    async def __call__(self, request: Request) -> None:
        """Let the request pass, or raise what refuses it."""


def needs(operation: Operation) -> Any:
    """For `dependencies=[needs(…)]` of a route or a router."""
    return Depends(Need(operation))


def operation_of(route: APIRoute) -> Operation:
    """What a route needs: exactly one thing."""
    found = [
        one.dependency.operation for one in route.dependencies if isinstance(one.dependency, Need)
    ]
    assert len(found) == 1, (
        f"{route.path}: say once what it needs (rest/permission.py), not {found}"
    )
    return found[0]


def check_routes(router: APIRouter) -> None:
    """Every route says what it needs, and its path names what that is done to."""
    for route in router.routes:
        assert isinstance(route, APIRoute), f"{route}: routers are not nested, nothing is mounted"
        operation = operation_of(route)
        missing = set(PARAMETERS[operation.scope]) - route.param_convertors.keys()
        assert not missing, f"{route.path}: {operation.name} needs {missing} in the path"
