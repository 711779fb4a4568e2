"""The right that each route needs, checked before it runs.

    router = Router("statistics")

    @router.get("/{domain}/{tenant}/{namespace}/{topic}/stats", Operation.LOOK_UP)

The names in the path (`tenant`, `namespace`, `domain`, `topic`, `subscription`) say what the operation is
done to. Who is asking is told by the request's credentials: none, or bad ones, are 401; a role without
the right is 403. Upstream answers 401 to both for some resources; its clients take the two for the same.
`identity_of(request)` is who asked, for the audit log.

While the broker is cut off from its bucket, another one may serve its topics, and change their policies and
grants: nothing is told or changed then (503) but what `of_process` marks, and what needs no right. A worker
that is not told of changes any more reads them first.

A router all of whose routes need the same may say it once, for itself. A route that says nothing, or two
things, is found by `check_routes` when the application is made, which then does not start: nothing is
open, or closed, by accident.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

from fastapi import APIRouter, Request
from fastapi.params import Depends
from fastapi.routing import APIRoute
from fastapi.types import DecoratedCallable
from starlette.routing import compile_path

from milepost.broker.auth.authenticator import presented_over_http
from milepost.broker.auth.authorizer import BROKER, Target
from milepost.broker.auth.certificates import CERTIFICATE
from milepost.broker.auth.operations import Operation, Scope
from milepost.broker.auth.roles import Identity
from milepost.broker.connection.access_control import AccessControl
from milepost.broker.connection.server import is_this_machine
from milepost.errors import NotAuthenticated, NotAuthorized
from milepost.positions.names import PERSISTENT, NamespaceName, TopicName

if TYPE_CHECKING:
    from milepost.broker.broker import Broker

# For whom a proxy speaks; from anyone else it is refused.
ORIGINAL_ROLE = "x-original-principal"

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

    def __init__(self, operation: Operation, *, of_process: bool = False) -> None:
        """`of_process`: the route tells of this process or of the other brokers, not of what is in the
        bucket."""
        self.operation = operation
        self._of_process = of_process

    async def __call__(self, request: Request) -> None:
        """Let the request pass, or raise what refuses it."""
        broker: Broker = request.app.state.broker
        access, operation = broker.access_control, self.operation
        if operation is Operation.METRICS:
            if not broker.settings.authenticate_metrics:
                return
            operation = Operation.IDENTIFIED
        elif operation is Operation.OPEN:
            return
        elif not self._of_process:
            broker.check_served()
            if broker.workers is not None:
                await broker.workers.know()
        identity = await _identify(access, request)
        request.state.identity = identity
        # For the audit log, and whatever else names who did something.
        request.state.role = None if identity is None else str(identity)
        access.check(identity, operation, _target(operation, request))


def needs(operation: Operation, *, of_process: bool = False) -> Any:
    """For `dependencies=[needs(…)]` of a route or a router."""
    return Depends(Need(operation, of_process=of_process))


Needed = Operation | Depends


class Decorator(Protocol):
    def __call__(self, handler: DecoratedCallable, /) -> DecoratedCallable: ...


def _needs_all(needed: tuple[Needed, ...]) -> list[Depends]:
    return [needs(one) if isinstance(one, Operation) else one for one in needed]


class LateRoute(APIRoute):
    """A route that is told apart by its path and methods, and is made when it is first used, or described.

    What its parameters and its answer are takes a millisecond and 30 KiB to find out, for each of four
    hundred routes of which a broker's clients use a few.
    """

    def __init__(self, path: str, endpoint: Callable[..., Any], **options: Any) -> None:
        # What finds a route, and what `check_routes` asks. Every other attribute makes it.
        self._given: tuple[str, Callable[..., Any], dict[str, Any]] | None = path, endpoint, options
        self.path, self.endpoint = path, endpoint
        self.methods = {method.upper() for method in options.get("methods") or ("GET",)}
        self.path_regex, self.path_format, self.param_convertors = compile_path(path)
        self.dependencies = list(options.get("dependencies") or ())
        self.include_in_schema = options.get("include_in_schema", True)

    def __getattr__(self, name: str) -> Any:
        given = self.__dict__.get("_given")
        if given is None:
            raise AttributeError(f"{type(self).__name__} has no attribute {name!r}")
        self._given = None
        path, endpoint, options = given
        try:
            super().__init__(path, endpoint, **options)
        except BaseException:
            self._given = given  # the next request is told the same
            raise
        return getattr(self, name)


class Router(APIRouter):
    """The routes of a resource. Behind its path each says what it needs, and what else it depends on."""

    def __init__(self, tag: str, *needed: Operation, prefix: str = "") -> None:
        super().__init__(
            prefix=prefix, tags=[tag], dependencies=_needs_all(needed), route_class=LateRoute
        )

    def get(self, path: str, *needed: Needed, **options: Any) -> Decorator:
        return super().get(path, dependencies=_needs_all(needed), **options)

    def put(self, path: str, *needed: Needed, **options: Any) -> Decorator:
        return super().put(path, dependencies=_needs_all(needed), **options)

    def post(self, path: str, *needed: Needed, **options: Any) -> Decorator:
        return super().post(path, dependencies=_needs_all(needed), **options)

    def delete(self, path: str, *needed: Needed, **options: Any) -> Decorator:
        return super().delete(path, dependencies=_needs_all(needed), **options)


def identity_of(request: Request) -> Identity | None:
    """Who asked; None where clients need not say."""
    found: Identity | None = getattr(request.state, "identity", None)
    return found


def who(request: Request) -> str:
    """The name by which the broker records a caller: its role, or the address it came from."""
    identity = identity_of(request)
    if identity is not None:
        return identity.speaks_as
    return request.client.host if request.client else "unknown"


async def _identify(access: AccessControl, request: Request) -> Identity | None:
    security = access.security
    if not security.authenticator.is_enabled:
        return None
    try:
        for name in ("authorization", ORIGINAL_ROLE):
            if len(request.headers.getlist(name)) > 1:
                raise NotAuthenticated("header_twice", f"the header {name} is there twice")
        host = request.client.host if request.client else ""
        presented = presented_over_http(
            request.headers,
            request.scope.get(CERTIFICATE),
            is_confidential=request.url.scheme == "https" or is_this_machine(host),
            takes_certificates=security.authenticator.takes_certificates,
        )
        original_role = request.headers.get(ORIGINAL_ROLE, "")
        return await security.identify(presented, original_role=original_role, over_http=True)
    except (NotAuthenticated, NotAuthorized) as error:
        access.refused(f"a request from {request.client.host if request.client else '?'}", error)
        raise


def _target(operation: Operation, request: Request) -> Target:
    path = request.path_params
    match operation.scope:
        case Scope.TENANT:
            return Target(path["tenant"])
        case Scope.NAMESPACE:
            return Target.of_namespace(NamespaceName.parse(f"{path['tenant']}/{path['namespace']}"))
        case Scope.TOPIC:
            domain = path.get("domain", PERSISTENT)
            name = f"{domain}://{path['tenant']}/{path['namespace']}/{path['topic']}"
            return Target.of_topic(TopicName.parse(name), path.get("subscription", ""))
        case Scope.NOTHING | Scope.BROKER:
            return BROKER


def operation_of(route: APIRoute) -> Operation:
    """What a route needs: exactly one thing."""
    found = [
        one.dependency.operation for one in route.dependencies if isinstance(one.dependency, Need)
    ]
    assert len(found) == 1, (
        f"{route.path}: say once what it needs (rest/route_access.py), not {found}"
    )
    return found[0]


def check_routes(router: APIRouter) -> None:
    """Every route says what it needs, and its path names what that is done to."""
    for route in router.routes:
        assert isinstance(route, APIRoute), f"{route}: routers are not nested, nothing is mounted"
        operation = operation_of(route)
        assert operation is not Operation.HELD, f"{route.path}: a request holds nothing"
        missing = set(PARAMETERS[operation.scope]) - route.param_convertors.keys()
        assert not missing, f"{route.path}: {operation.name} needs {missing} in the path"
