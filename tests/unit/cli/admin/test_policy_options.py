"""Options of policies: every policy has them, every field can be given, and values come out as JSON."""

from __future__ import annotations

import click
import pytest

from milepost.broker.policies.accepted_only import SparseRecord
from milepost.broker.policies.policy import Level
from milepost.broker.policies.shapes import Record
from milepost.broker.policies.table import POLICIES, TABLE
from milepost.cli.admin.policy_options import OPTIONS, given, parameters_of, policy_of, words_of

SINGLE = [one for one in TABLE if one.topic is None or not one.topic.kind]


def test_every_policy_has_its_options() -> None:
    assert set(OPTIONS) == {one.name for one in SINGLE}


@pytest.mark.parametrize("policy", SINGLE, ids=lambda one: one.name)
def test_every_field_of_a_value_has_an_option(policy: object) -> None:
    assert policy in SINGLE
    shape = policy.shape  # type: ignore[attr-defined]
    fields = set(shape.fields) if isinstance(shape, Record) else {""}
    options = OPTIONS[policy.name]  # type: ignore[attr-defined]
    named = {one.field for one in options}
    if isinstance(shape, SparseRecord):
        assert named <= fields, "of the others upstream's command has no options either"
    else:
        assert named in (fields, set())
    flags = [flag for one in options for flag in (*one.flags.split(), *one.off.split())]
    assert len(flags) == len(set(flags))


@pytest.mark.parametrize("level", Level)
def test_no_word_means_two_policies(level: Level) -> None:
    words = [word for one in SINGLE if one.route(level) for word in words_of(one, level)]
    assert len(words) == len(set(words))
    for one in SINGLE:
        for word in words_of(one, level) if one.route(level) else ():
            assert policy_of(level, word) is one


def test_words_are_the_paths_in_small_letters() -> None:
    assert words_of(POLICIES["message_ttl"], Level.NAMESPACE) == ("message-ttl",)
    assert words_of(POLICIES["max_producers"], Level.NAMESPACE) == ("max-producers-per-topic",)
    assert words_of(POLICIES["max_producers"], Level.TOPIC) == ("max-producers", "maxProducers")
    assert policy_of(Level.TOPIC, "max-topics-per-namespace") is None


def test_what_was_not_given_is_left_to_the_broker() -> None:
    policy = POLICIES["auto_topic_creation"]
    said = {"option_0": True, "off_0": False, "option_1": "partitioned", "option_2": None}
    assert given(policy, said) == {"allowAutoTopicCreation": True, "topicType": "partitioned"}


def test_a_switch_is_given_one_way() -> None:
    policy = POLICIES["deduplication"]
    assert given(policy, {"option_0": False, "off_0": True}) is False
    for both in (True, False):
        with pytest.raises(click.UsageError, match="either --enable or --disable"):
            given(policy, {"option_0": both, "off_0": both})
    # Without a word it is off, as in upstream's grammar.
    assert given(POLICIES["schema_validation"], {"option_0": False, "off_0": False}) is False
    with pytest.raises(click.UsageError, match="either"):
        given(POLICIES["schema_validation"], {"option_0": True, "off_0": True})


def test_options_have_the_types_of_the_shape() -> None:
    kinds = {one.name: one.type for one in parameters_of(POLICIES["persistence"])}
    assert kinds["option_0"] is click.INT
    assert kinds["option_3"] is click.FLOAT
    (strategy,) = parameters_of(POLICIES["schema_compatibility"])
    assert isinstance(strategy.type, click.Choice)
