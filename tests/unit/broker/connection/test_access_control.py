"""Access control: every command of the handler list for every role, and rights that end."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from stage.security import SECRET, SECURED, shown
from stage.stage import TOPIC, Stage
from stage.talk import ask, error_of, minimal, produce, subscribe

from milepost.broker.auth.grants import Grants
from milepost.broker.auth.operations import Action, Operation, Scope
from milepost.broker.connection.handlers import EVENT_HANDLERS, HANDLERS
from milepost.positions.names import NamespaceName, TopicName
from milepost.testing.peer import Loopback
from milepost.wire import pulsar_pb2 as pb
from milepost.wire.commands import Kind, kind_name

MakeStage = Callable[..., Stage]

NAMESPACE = NamespaceName.parse("public/default")

# Roles, and the operations that each may ask for; what is HELD or OPEN everyone may.
MAY: dict[str, set[Operation]] = {
    "root": set(Operation),
    "boss": set(Operation) - {Operation.SUPERUSER},
    "writer": {Operation.PRODUCE, Operation.LOOK_UP, Operation.LIST_TOPICS},
    "reader": {Operation.CONSUME, Operation.LOOK_UP, Operation.LIST_TOPICS},
    "of-topic": {Operation.PRODUCE, Operation.CONSUME, Operation.LOOK_UP},
    "zed": set(),  # the admin of another tenant
    "stranger": set(),
}


@pytest.fixture
def secured(make_stage: MakeStage) -> Stage:
    stage = make_stage(**SECURED)
    stage.broker.directory._tenants["public"] = {"adminRoles": ["boss"]}
    stage.broker.directory._tenants["zeta"] = {"adminRoles": ["zed"]}
    grant(
        stage,
        lambda grants: (
            grants.with_namespace_role("writer", {Action.PRODUCE})
            .with_namespace_role("reader", {Action.CONSUME})
            .with_topic_role(TopicName.parse(TOPIC), "of-topic", {Action.PRODUCE, Action.CONSUME})
        ),
    )
    return stage


def grant(stage: Stage, change: Callable[[Grants], Grants]) -> None:
    stage.run(stage.broker.access_control.grants.edit(NAMESPACE, change))


JUDGED = [kind for kind in HANDLERS if HANDLERS[kind].needs is not Operation.OPEN]


@pytest.mark.parametrize("role", MAY)
@pytest.mark.parametrize("kind", JUDGED, ids=kind_name)
def test_every_command_for_every_role(secured: Stage, kind: int, role: str) -> None:
    client = secured.client(**shown(role))
    needs = HANDLERS[kind].needs
    client.say(minimal(kind))
    secured.turn()
    refused = any(error_of(heard) == "AuthorizationError" for heard in client.take())
    allowed = needs.scope is Scope.NOTHING or needs in MAY[role]
    assert refused is not allowed
    assert not client.is_closing
    counted = secured.broker.counters.authorizations_refused
    assert counted == ({} if allowed else {needs.name.lower(): 1})


# What lets no one in, whatever it is followed by.
USELESS = {
    "none": {"auth_method_name": "", "auth_data": b""},
    "expired": shown("root", exp=1),
    "forged": {"auth_method_name": "token", "auth_data": b"a.b.c"},
}


@pytest.mark.parametrize("credentials", USELESS)
@pytest.mark.parametrize("kind", JUDGED, ids=kind_name)
def test_no_command_is_obeyed_without_credentials_that_hold(
    secured: Stage, kind: int, credentials: str
) -> None:
    """The command comes right behind CONNECT, before the refusal is heard."""
    client = secured.loop.do(lambda: Loopback(secured.broker, **USELESS[credentials]))
    client.say(minimal(kind))
    secured.turn()
    (refusal,) = client.take()
    assert error_of(refusal) == "AuthenticationError"
    assert client.is_closing
    assert not secured.broker.topics


@pytest.mark.parametrize("kind", JUDGED, ids=kind_name)
def test_with_security_off_nobody_is_asked(stage: Stage, kind: int) -> None:
    client = stage.client()
    client.say(minimal(kind))
    stage.turn()
    assert not any(error_of(heard).startswith("Auth") for heard in client.take())


def test_commands_that_come_as_events_touch_only_what_the_connection_holds() -> None:
    """SEND, ACK and FLOW name a producer or consumer that was judged when it was opened."""
    assert set(EVENT_HANDLERS) == {Kind.SEND, Kind.ACK, Kind.FLOW}
    assert {one.needs for one in EVENT_HANDLERS.values()} == {Operation.HELD}


def test_a_dead_letter_producer_needs_the_right_to_the_subscription(secured: Stage) -> None:
    command = pb.CommandProducer(
        topic=TOPIC, producer_id=1, request_id=0, initial_subscription_name="s"
    )
    for role, is_allowed in (("writer", False), ("of-topic", True)):
        client = secured.client(**shown(role))
        request_id = ask(client, command)
        secured.turn()
        (answer,) = [one for one in client.take() if one.request_id == request_id]
        assert (error_of(answer) != "AuthorizationError") is is_allowed


def _clients(stage: Stage) -> tuple[Loopback, Loopback]:
    writer, reader = stage.client(**shown("writer")), stage.client(**shown("reader"))
    produce(stage, writer)
    subscribe(stage, reader)
    return writer, reader


def test_a_right_that_is_revoked_closes_what_was_opened_by_it(secured: Stage) -> None:
    writer, reader = _clients(secured)
    grant(secured, lambda grants: grants.without_namespace_role("writer"))
    secured.turn()
    assert [type(one) for one in writer.take()] == [pb.CommandCloseProducer]
    assert not writer.session.producers
    assert not writer.is_closing  # the connection stays, as upstream's does
    assert not reader.take()
    grant(secured, lambda grants: grants.without_namespace_role("reader"))
    secured.turn()
    assert [type(one) for one in reader.take()] == [pb.CommandCloseConsumer]
    assert secured.broker.counters.rights_ended == {"produce": 1, "consume": 1}
    # Coming back is refused.
    ask(writer, minimal(Kind.PRODUCER))
    secured.turn()
    assert error_of(writer.take()[0]) == "AuthorizationError"


def test_a_watcher_without_the_right_hears_of_no_more_topics(secured: Stage) -> None:
    reader = secured.client(**shown("reader"))
    ask(reader, minimal(Kind.WATCH_TOPIC_LIST))
    secured.turn()
    assert len(secured.broker.watchers) == 1
    grant(secured, lambda grants: grants.with_namespace_role("x", {Action.PRODUCE}))
    assert len(secured.broker.watchers) == 1
    grant(secured, lambda grants: grants.without_namespace_role("reader"))
    assert len(secured.broker.watchers) == 0
    assert secured.broker.counters.rights_ended == {"watch": 1}


def test_a_subscription_given_to_others_closes_its_consumers(secured: Stage) -> None:
    _, reader = _clients(secured)
    (consumer,) = reader.session.consumers.values()
    label = consumer.subscription.name
    grant(secured, lambda grants: grants.with_subscription_roles(label, ["somebody"]))
    secured.turn()
    assert not reader.session.consumers


def test_a_right_that_is_revoked_while_it_is_used_does_not_outlive_that(secured: Stage) -> None:
    """The topic has to be made first: the right is gone when that is done."""
    writer = secured.client(**shown("writer"))
    secured.engine.holds_catalog = True
    ask(writer, minimal(Kind.PRODUCER))
    secured.turn()
    assert not writer.session.producers
    book = secured.broker.access_control.grants
    book._grants[str(NAMESPACE)] = book.of(NAMESPACE).without_namespace_role("writer")
    secured.broker.access_control.recheck(NAMESPACE)
    secured.engine.holds_catalog = False
    secured.turn()
    assert not writer.session.producers
    assert isinstance(writer.take()[-1], pb.CommandCloseProducer)


def test_another_grant_closes_nobody(secured: Stage) -> None:
    writer, reader = _clients(secured)
    grant(secured, lambda grants: grants.with_namespace_role("x", {Action.PRODUCE}))
    secured.turn()
    assert not writer.take()
    assert not reader.take()


def test_grants_survive_a_restart(secured: Stage) -> None:
    again = secured.restarted()
    assert again.broker.access_control.grants.of(NAMESPACE).allow("writer", Action.PRODUCE)


def test_a_changed_key_asks_everyone_for_another_token(
    make_stage: MakeStage, tmp_path: Path
) -> None:
    path = tmp_path / "secret.key"
    path.write_bytes(SECRET)
    stage = make_stage(**{**SECURED, "token_secret_key": str(path)})
    access = stage.broker.access_control
    client = stage.client(**shown("root"))
    stage.loop.do(lambda: access.tick(1e6))
    assert not client.take()
    path.write_bytes(SECRET[::-1])
    stage.loop.do(lambda: access.tick(2e6))
    for session in list(stage.broker.sessions):
        stage.loop.do(lambda session=session: session.tick(keep_alive=False))  # type: ignore[misc]
    stage.turn()
    assert [type(one).__name__ for one in client.take()] == ["CommandAuthChallenge"]


def test_credentials_in_the_clear_are_warned_of(
    make_stage: MakeStage, caplog: pytest.LogCaptureFixture
) -> None:
    make_stage(**SECURED)
    assert "in the clear" not in caplog.text
    make_stage(**SECURED, host="0.0.0.0", require_tls_for_credentials=True)
    assert "in the clear" not in caplog.text
    make_stage(**SECURED, host="0.0.0.0")
    assert "token credentials may cross the network in the clear" in caplog.text
