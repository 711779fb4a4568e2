"""Makes docs/rest.md from the docstrings of the routes.

python -m milepost.rest.reference > docs/rest.md
"""

from __future__ import annotations

import sys
import textwrap

from fastapi.routing import APIRoute

from milepost.rest import absent
from milepost.rest.app import RESOURCES
from milepost.rest.console import pages
from milepost.rest.route_access import operation_of

INTRODUCTION = """\
# REST

Milepost answers on the paths of Pulsar's admin API, with its JSON and its status codes; what it adds is on
the same paths or under `/milepost/v1`. The description for programs is at `/openapi.json`; `/docs` shows it
to people, and needs no network. This page is made from the routes (`python -m milepost.rest.reference`).

- Errors are `{"reason": "…"}`. 404 is for what is not there, 409 for what is there already, 412 for what is
  not in the state that is needed, 405 for what is refused as a matter of rule.
- Calls that destroy something take `?dryRun=true`: they answer 200 with what they would do, and do nothing.
  What was done is a line of the logger `milepost.audit`.
- Bodies are `application/json`, up to 1 MiB, in plain JSON: no key twice, no NaN, not deeper than 64.
- On a listener that only this machine reaches, the Host header must be an address or a name of this broker
  (`http_hosts`); a change that another site's page asks for is refused everywhere, one that any page asks for
  where `console_read_only` is set.
- `msgBacklog` counts entries, as upstream; `messagesBacklog` and its parts beside it count messages. Metrics
  of a backlog count messages.

"""


ABSENT = """\
## What Apache Pulsar has and Milepost has not (`rest/absent.py`)

Every other route of Apache Pulsar 4.2.4 is served; a test compares the two lists.

| methods | path | status | why |
| --- | --- | --- | --- |
"""


def page() -> str:
    parts = [INTRODUCTION]
    for resource in RESOURCES:
        if resource in (absent, pages):
            continue
        routes = [one for one in resource.router.routes if isinstance(one, APIRoute)]
        tag = str(routes[0].tags[0]) if routes and routes[0].tags else resource.__name__
        file = resource.__name__.removeprefix("milepost.").replace(".", "/") + ".py"
        parts.append(f"## {tag.capitalize()} (`{file}`)\n\n")
        parts += [_entry(route) for route in routes if route.include_in_schema]
    parts.append(ABSENT)
    parts += [
        f"| {row.methods.replace(' ', ', ')} | `{row.path}{'…' if row.path.endswith('/') else ''}` "
        f"| {row.status} | {row.reason} |\n"
        for row in absent.TABLE
    ]
    return "".join(parts).rstrip() + "\n"


def _entry(route: APIRoute) -> str:
    methods = " ".join(sorted(route.methods or ()))
    operation = operation_of(route)
    said = " ".join((route.endpoint.__doc__ or "").split())
    text = f"{said} Needs {operation.meaning}.".strip()
    return f"### {methods} {route.path_format}\n\n{_paragraph(text)}\n\n"


def _paragraph(text: str) -> str:
    return textwrap.fill(text, 118, break_long_words=False, break_on_hyphens=False)


if __name__ == "__main__":
    sys.stdout.write(page())
