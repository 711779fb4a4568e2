"""Serves the console's files, with the headers that keep other sites out.

`/` and `/console` lead to `/console/`, and `/docs` to the page about the routes. Everything is relative, so a
proxy may serve the broker below a path of its own. The files themselves hold no secret and are for everyone;
what they ask for needs the rights that it always needs. A browser runs no script but these, loads nothing
from elsewhere, shows them in no frame, and tells no other site where it was.
"""

from __future__ import annotations

from fastapi import APIRouter, Request, Response

from milepost.broker.auth.operations import Operation
from milepost.errors import NotFound
from milepost.rest.console.files import files
from milepost.rest.route_access import needs

router = APIRouter(tags=["console"], include_in_schema=False, dependencies=[needs(Operation.OPEN)])

HEADERS = {
    "content-security-policy": (
        "default-src 'self'; base-uri 'none'; object-src 'none'; form-action 'none'; "
        "frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"
    ),
    "x-frame-options": "DENY",
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), microphone=(), geolocation=()",
    # Asked for again each time, and mostly answered with 304: a new version is seen at once.
    "cache-control": "no-cache",
}


@router.get("/")
@router.get("/console")
async def lead_to_console() -> Response:
    """To the console, wherever this is seen from."""
    return Response(status_code=307, headers={"location": "console/"})


@router.get("/docs")
async def lead_to_docs() -> Response:
    """To the page about the routes, wherever this is seen from."""
    return Response(status_code=307, headers={"location": "console/docs.html"})


@router.get("/console/{path:path}")
async def get_console_file(request: Request, path: str) -> Response:
    """A file of the console."""
    found = files().get(path or "index.html")
    if found is None:
        raise NotFound(f"the console has no file {path}")
    headers = HEADERS | {"etag": found.tag}
    asked = request.headers.get("if-none-match", "")
    if found.tag in (one.strip().removeprefix("W/") for one in asked.split(",")):
        return Response(status_code=304, headers=headers)
    return Response(found.body, headers=headers | {"content-type": found.kind})
