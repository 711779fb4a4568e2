"""Every route says what it needs, or there is no application."""

from __future__ import annotations

import pytest
from fastapi import APIRouter

from milepost.broker.auth.operations import Operation
from milepost.rest.app import RESOURCES
from milepost.rest.route_access import check_routes, needs, operation_of


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
