"""Who is asking, what the role may do, and where policies come from."""

from __future__ import annotations

from stage.http import Web
from stage.security import SECURED, bearer
from stage.stage import Stage

from milepost.broker.auth.grants import Grants
from milepost.broker.auth.operations import Action
from milepost.positions.names import NamespaceName
from rest.conftest import Ask, Request

RIGHTS = "/milepost/v1/topics/public/default/t/rights"
POLICIES = "/milepost/v1/topics/public/default/t/policies"


async def _grant(broker: object) -> None:
    def readers(grants: Grants) -> Grants:
        return grants.with_namespace_role("reader", {Action.CONSUME})

    namespace = NamespaceName.parse("public/default")
    await broker.access_control.grants.edit(namespace, readers)  # type: ignore[attr-defined]


def test_a_role_learns_what_it_may_do(ask: Ask) -> None:
    nobody, root, reader, stranger = ask(
        _grant,
        "GET /milepost/v1/session",
        *(
            Request("GET", "/milepost/v1/session", headers=bearer(role))
            for role in ("root", "reader", "stranger")
        ),
        **SECURED,
    )
    assert nobody.status == 401
    assert (root.json["role"], root.json["is_superuser"]) == ("root", True)
    assert "pulsar/system" in root.json["namespaces"]
    assert (reader.json["is_superuser"], reader.json["namespaces"]) == (False, ["public/default"])
    assert stranger.json["namespaces"] == []


def test_rights_on_a_topic(ask: Ask) -> None:
    answers = ask(
        _grant,
        *(Request("GET", RIGHTS, headers=bearer(role)) for role in ("root", "reader", "stranger")),
        **SECURED,
    )
    assert [list(one.json.values()) for one in answers] == [
        [True, True, True, True],
        [True, True, False, False],
        [False, False, False, False],
    ]


def test_where_clients_need_not_say_who_they_are_all_may_do_everything(ask: Ask) -> None:
    session, rights = ask("GET /milepost/v1/session", f"GET {RIGHTS}")
    assert (session.json["role"], session.json["is_superuser"]) == (None, True)
    assert not session.json["read_only"]
    assert all(rights.json.values())


def test_policies_say_where_they_come_from(stage: Stage) -> None:
    web = Web(stage)
    stage.topic()
    web("POST /admin/v2/namespaces/public/default/messageTTL", 60)
    web("POST t/maxProducers", 7)
    held = {one["name"]: one for one in web(f"GET {POLICIES}").json}
    assert (held["message_ttl"]["value"], held["message_ttl"]["source"]) == (60, "namespace")
    assert (held["max_producers"]["value"], held["max_producers"]["source"]) == (7, "topic")
    assert {"broker"} < {one["source"] for one in held.values()}
    assert all(one["doc"] for one in held.values())
    assert web(f"GET {POLICIES.replace('/t/', '/other/')}").status == 404
