"""Which shard a broker gives away: moves come to an end, and do not go back and forth."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from milepost.storage.cluster.balance import CLEAR, Surplus, surplus, weight, weights

BROKERS = "abcd"
# Loads of shards in cores, and which broker has each.
CLUSTERS = st.lists(
    st.tuples(st.floats(0, 2).map(lambda load: round(load, 3)), st.sampled_from(BROKERS)),
    min_size=1,
    max_size=24,
)
Cluster = dict[str, dict[int, float]]


def cluster_of(shards: list[tuple[float, str]]) -> Cluster:
    return {
        name: {number: load for number, (load, owner) in enumerate(shards) if owner == name}
        for name in BROKERS
    }


def gift(cluster: Cluster) -> tuple[str, Surplus] | None:
    """What one of the brokers gives; at most one of them does."""
    found = [
        (name, given)
        for name in cluster
        if (given := surplus(cluster, name, cluster[name])) is not None
    ]
    assert len(found) < 2, found
    return found[0] if found else None


def moved(cluster: Cluster, owner: str, given: Surplus) -> Cluster:
    after = {name: dict(shards) for name, shards in cluster.items()}
    after[given.broker][given.shard] = after[owner].pop(given.shard)
    return after


def squares(cluster: Cluster) -> float:
    return sum(one * one for one in weights(cluster).values())


@given(CLUSTERS)
def test_moves_come_to_an_end_and_never_empty_a_broker(shards: list[tuple[float, str]]) -> None:
    cluster = cluster_of(shards)
    for _ in range(200):
        found = gift(cluster)
        if found is None:
            break
        owner, given = found
        after = moved(cluster, owner, given)
        assert after[owner], "its last shard"
        assert squares(after) <= squares(cluster) - 2 + 1e-6
        cluster = after
    assert gift(cluster) is None
    heavy = [max((weight(load) for load in one.values()), default=0.0) for one in cluster.values()]
    carried = weights(cluster)
    for name, most in zip(cluster, heavy, strict=True):
        # What is left of a gap is no more than the lightest shard, give or take.
        lightest = min((weight(load) for load in cluster[name].values()), default=most)
        if carried[name] == max(carried.values()) and len(cluster[name]) > 1:
            assert carried[name] - min(carried.values()) <= max(CLEAR * lightest, lightest + 1)


@given(CLUSTERS, st.lists(st.floats(-1, 1), min_size=4, max_size=4))
def test_a_shard_does_not_come_back_while_loads_change_little(
    shards: list[tuple[float, str]], noise: list[float]
) -> None:
    cluster = cluster_of(shards)
    found = gift(cluster)
    if found is None:
        return
    owner, given = found
    load = cluster[owner][given.shard]
    cluster = moved(cluster, owner, given)
    # All of a broker's other load changes, by less than a quarter of what was moved.
    for number, (name, share) in enumerate(zip(BROKERS, noise, strict=True)):
        cluster[name][1000 + number] = share * weight(load) * 0.12 / 10 - 0.1
    back = surplus(cluster, given.broker, [given.shard])
    assert back is None or back.broker != owner


@given(CLUSTERS)
def test_every_broker_decides_the_same_whatever_it_may_move(
    shards: list[tuple[float, str]],
) -> None:
    cluster = cluster_of(shards)
    for name, owned in cluster.items():
        assert surplus(cluster, name, []) is None
        found = surplus(cluster, name, owned)
        if found is not None:
            assert found.shard in owned
            assert found.broker != name
            assert surplus(cluster, name, owned, {found.broker: [found.shard]}) != found


def test_without_load_brokers_have_as_many_shards_as_each_other_give_or_take_one() -> None:
    cluster = cluster_of([(0.0, "a")] * 11)
    while (found := gift(cluster)) is not None:
        cluster = moved(cluster, *found)
    assert sorted(map(len, cluster.values())) == [2, 3, 3, 3]


def test_a_broker_with_one_hot_shard_gives_the_others_away_and_keeps_that() -> None:
    cluster: Cluster = {"a": {0: 0.9, 1: 0.0, 2: 0.0}, "b": {3: 0.0, 4: 0.0, 5: 0.0}}
    gifts = []
    while (found := gift(cluster)) is not None:
        gifts.append(found)
        cluster = moved(cluster, *found)
    assert gifts == [("a", Surplus(2, "b")), ("a", Surplus(1, "b"))]
    assert cluster["a"] == {0: 0.9}


def test_a_broker_that_is_about_to_end_is_given_nothing_and_gives_nothing_so() -> None:
    assert surplus({"a": {1: 0.0, 2: 0.0, 3: 0.0}}, "b", [4]) is None
