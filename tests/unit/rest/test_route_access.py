"""Every route says what it needs, or there is no application."""

from __future__ import annotations

import pytest
from fastapi import APIRouter
from fastapi.exceptions import FastAPIError

from milepost.broker.auth.operations import Operation
from milepost.rest.app import RESOURCES
from milepost.rest.route_access import LateRoute, Router, check_routes, needs, operation_of


def _router(path: str, *operations: Operation) -> APIRouter:
    router = APIRouter()
    router.add_api_route(path, lambda: None, dependencies=[needs(one) for one in operations])
    return router


def test_every_route_there_is_says_what_it_needs() -> None:
    for resource in RESOURCES:
        check_routes(resource.router)


def test_a_route_without_a_word_stops_the_build() -> None:
    with pytest.raises(AssertionError, match="/new: say once what it needs"):
        check_routes(_router("/new"))


def test_a_route_with_two_words_stops_the_build() -> None:
    router = _router("/new", Operation.OPEN, Operation.SUPERUSER)
    with pytest.raises(AssertionError, match="say once"):
        check_routes(router)


def test_a_route_names_in_its_path_what_its_operation_is_done_to() -> None:
    with pytest.raises(AssertionError, match=r"LIST_TOPICS needs .'namespace'"):
        check_routes(_router("/admin/v2/{tenant}/topics", Operation.LIST_TOPICS))


def test_a_router_may_say_it_for_all_its_routes() -> None:
    router = APIRouter(dependencies=[needs(Operation.SUPERUSER)])
    router.add_api_route("/a", lambda: None)
    router.add_api_route("/b", lambda: None)
    check_routes(router)
    assert {operation_of(route) for route in router.routes} == {Operation.SUPERUSER}  # type: ignore[arg-type]


def test_a_router_inside_a_router_is_not_overlooked() -> None:
    outer = APIRouter()
    outer.include_router(_router("/new"))
    with pytest.raises(AssertionError, match="not nested"):
        check_routes(outer)


async def _late(number: int) -> dict[str, int]:
    return {"number": number}


def test_a_route_is_made_when_it_is_first_used() -> None:
    path = "/late/{number}"
    router = Router("tests", Operation.SUPERUSER)
    router.get(path)(_late)
    [route] = router.routes
    assert isinstance(route, LateRoute)
    check_routes(router)
    before = vars(route).copy()
    assert "dependant" not in before
    assert [one.name for one in route.dependant.path_params] == ["number"]
    # Now it is what the framework makes at once, and what was known of it before is the same.
    plain = APIRouter(tags=["tests"], dependencies=router.dependencies)
    plain.get(path)(_late)
    [twin] = plain.routes
    assert vars(twin).keys() | {"_given"} == vars(route).keys()
    for name, value in vars(twin).items():
        if name in before or isinstance(value, str | int | None):
            assert getattr(route, name) == value, name
            assert before.get(name, value) == value, name
    with pytest.raises(AttributeError, match="no attribute 'surplus'"):
        route.surplus  # noqa: B018


def test_a_route_that_cannot_be_made_says_so_each_time() -> None:
    router = Router("tests", Operation.SUPERUSER)
    router.get("/broken", response_model=APIRouter)(_late)
    [route] = router.routes
    assert isinstance(route, LateRoute)
    for _ in range(2):
        with pytest.raises(FastAPIError, match="APIRouter"):
            route.app  # noqa: B018
