"""Settings changed while the broker runs: checked, durable, in force."""

from __future__ import annotations

import pytest
from stage.stage import Stage
from stage.talk import error_of, produce

from milepost.broker.dynamic_settings import FOLDER, NAME, live_keys, runtime
from milepost.broker.policies.table import TABLE as POLICIES
from milepost.broker.settings.setting import HIDDEN
from milepost.broker.settings.settings import TABLE, Settings
from milepost.errors import InvalidSetting, PreconditionFailed


def test_a_change_is_in_force_and_survives(stage: Stage) -> None:
    client = stage.client()
    assert not error_of(produce(stage, client, 0, "a"))
    stage.run(stage.broker.dynamic.set("maxProducersPerTopic", "1"))
    assert error_of(produce(stage, client, 1, "b")) == "ProducerBusy"
    stage = stage.restarted()
    assert stage.broker.settings.max_producers_per_topic == 1
    assert stage.topic().policies.max_producers == 1
    assert stage.broker.dynamic.values() == {"maxProducersPerTopic": "1"}
    stage.run(stage.broker.dynamic.remove("max_producers_per_topic"))
    assert stage.topic().policies.max_producers == 0
    assert stage.broker.dynamic.values() == {}
    assert stage.restarted().broker.settings.max_producers_per_topic == 0


def test_deduplication_by_default_is_in_force_when_it_is_answered(stage: Stage) -> None:
    topic = stage.topic()
    stage.run(stage.broker.dynamic.set("brokerDeduplicationEnabled", "true"))
    assert topic.dedup is not None


def test_partitions(stage: Stage) -> None:
    stage.run(stage.broker.dynamic.set("maxNumPartitionsPerPartitionedTopic", "3"))
    assert stage.broker.directory.partitions_max == 3


def test_a_near_name_is_told(stage: Stage) -> None:
    with pytest.raises(PreconditionFailed, match=r"; did you mean maxProducersPerTopic\?"):
        stage.run(stage.broker.dynamic.set("maxProducerPerTopic", "3"))
    with pytest.raises(PreconditionFailed, match="`milepost brokers list-dynamic-config` lists"):
        stage.run(stage.broker.dynamic.set("?", "3"))


@pytest.mark.parametrize("key", ["nonsense", "clusterName", "port"])
def test_what_may_not_change_is_refused(stage: Stage, key: str) -> None:
    for change in (stage.broker.dynamic.set(key, "1"), stage.broker.dynamic.remove(key)):
        with pytest.raises(PreconditionFailed, match=f"'{key}' is not a setting that can change"):
            stage.run(change)


def test_a_value_that_is_none_is_refused_and_changes_nothing(stage: Stage) -> None:
    with pytest.raises(
        InvalidSetting, match=r"maxProducersPerTopic = '-5': expected a whole number"
    ):
        stage.run(stage.broker.dynamic.set("maxProducersPerTopic", "-5"))
    assert stage.restarted().broker.dynamic.values() == {}


def test_what_another_version_has_left_is_not_used(stage: Stage) -> None:
    doc = {"max_producers_per_topic": "many", "gone": 1, "port": 1}
    stage.run(stage.broker.engine.catalog(lambda catalog: catalog.put_doc(FOLDER, NAME, doc)))
    assert stage.restarted().broker.settings.max_producers_per_topic == 0


def test_everything_that_policies_fall_back_on_is_live() -> None:
    fallbacks = {name for policy in POLICIES for name in policy.settings}
    assert {name for name in fallbacks if not TABLE[name].live} == set()
    assert "maxProducersPerTopic" in live_keys()


def test_all_of_them_as_text_in_the_units_of_their_keys() -> None:
    shown = runtime(Settings(token_secret_key="data:;base64,c2VjcmV0"))
    assert shown["maxMessageSize"] == "5242880"
    assert shown["messageExpiryCheckIntervalInMinutes"] == "5"
    assert shown["brokerDeduplicationEnabled"] == "false"
    assert shown["tokenSecretKey"] == HIDDEN
    assert shown["handshake_timeout_s"] == "10"
