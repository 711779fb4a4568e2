"""Whatever strangers show, they are let in or refused; and grants say what a plain list of them says."""

from __future__ import annotations

import asyncio
import base64

from hypothesis import example, given
from hypothesis import strategies as st
from stage.security import SECRET, token

from milepost.broker.auth.authenticator import Authenticator, Presented, presented_over_http
from milepost.broker.auth.grants import Grants
from milepost.broker.auth.keys import secret_key
from milepost.broker.auth.operations import Action
from milepost.broker.auth.passwords import PasswordTable
from milepost.broker.auth.tokens import TokenVerifier
from milepost.errors import InvalidInput, NotAuthenticated
from milepost.positions.names import TopicName

TOKEN = token("reporter").encode()
AUTHENTICATOR = Authenticator(
    lambda: 0,
    is_enabled=True,
    tokens=TokenVerifier(secret_key(SECRET)),
    passwords=PasswordTable.parse("alice:{SHA}5en6G6MezRroT3XKqkdPOmY/BfQ="),
    takes_certificates=True,
)


def _judged(presented: Presented) -> str | None:
    """The role, or None for whoever is refused in words that a log can show."""
    refusal = ""
    try:
        return asyncio.run(AUTHENTICATOR.authenticate(presented)).role
    except NotAuthenticated as refused:
        refusal = str(refused)
    assert refusal.isprintable()
    return None


@given(st.sampled_from(["token", "basic", "tls", "none", "x"]), st.binary(max_size=300))
@example("token", b"")
@example("basic", b":")
def test_any_bytes_are_refused_and_nothing_else(method: str, data: bytes) -> None:
    assert _judged(Presented(method, data)) is None


@given(st.integers(0, len(TOKEN) - 1), st.integers(1, 255))
def test_a_token_changed_anywhere_is_no_token(at: int, change: int) -> None:
    changed = bytearray(TOKEN)
    changed[at] ^= change
    if _decoded(bytes(changed)) != _decoded(TOKEN):
        assert _judged(Presented("token", bytes(changed))) is None


def _decoded(data: bytes) -> list[bytes]:
    """What the bits of a token say: the last letter of a part has some that say nothing."""
    parts = data.split(b".")
    try:
        return [base64.urlsafe_b64decode(part + b"=" * (-len(part) % 4)) for part in parts]
    except ValueError:
        return [data]


@given(
    st.dictionaries(
        st.sampled_from(["authorization", "x-pulsar-auth-method-name"]), st.text(max_size=60)
    )
)
def test_any_headers_are_refused_and_nothing_else(headers: dict[str, str]) -> None:
    shown = presented_over_http(headers, None, is_confidential=True, takes_certificates=True)
    assert _judged(shown) is None


@given(st.text(max_size=200))
def test_any_text_is_a_password_file_or_is_refused(text: str) -> None:
    try:
        table = PasswordTable.parse(text)
    except InvalidInput as refused:
        why = str(refused)
    else:
        why = ""
        assert not table.is_right("alice", "anything")
    assert why.isprintable()


# -- grants against a list of them -------------------------------------------------------------------

ROLES = ["a", "ab", "b"]
GRANTED = [*ROLES, "a*", "*b", "*"]
TOPICS = [
    TopicName.parse(f"persistent://t/n/{name}")
    for name in ("x", "y", "x-partition-0", "x-partition-1")
]
ACTIONS = [Action.PRODUCE, Action.CONSUME]

edits = st.lists(
    st.tuples(
        st.booleans(),
        st.sampled_from([None, *TOPICS]),
        st.sampled_from(GRANTED),
        st.frozensets(st.sampled_from(ACTIONS)),
    ),
    max_size=8,
)


@given(edits, st.booleans())
def test_grants_are_what_a_list_of_them_says(
    made: list[tuple[bool, TopicName | None, str, frozenset[Action]]], wildcards: bool
) -> None:
    grants = Grants()
    plain: dict[tuple[str, str], frozenset[Action]] = {}
    for is_grant, topic, role, actions in made:
        where = "" if topic is None else str(topic)
        if is_grant:
            plain[where, role] = actions
        else:
            plain.pop((where, role), None)
        match is_grant, topic:
            case True, None:
                grants = grants.with_namespace_role(role, actions)
            case False, None:
                grants = grants.without_namespace_role(role)
            case True, TopicName() as name:
                grants = grants.with_topic_role(name, role, actions)
            case False, TopicName() as name:
                grants = grants.without_topic_role(name, role)
    assert Grants.read(grants.document()) == grants

    def stands_for(granted: str, role: str) -> bool:
        if granted == role:
            return True
        prefix = granted.endswith("*") and role.startswith(granted[:-1])
        suffix = granted.startswith("*") and role.endswith(granted[1:])
        return wildcards and (prefix or suffix)

    for role in ROLES:
        for action in ACTIONS:
            for topic in (None, *TOPICS):
                places = {""} if topic is None else {"", str(topic), str(topic.base)}
                expected = any(
                    where in places and action in actions and stands_for(granted, role)
                    for (where, granted), actions in plain.items()
                )
                assert grants.allow(role, action, topic, wildcards=wildcards) is expected
