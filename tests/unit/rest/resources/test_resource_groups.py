"""Resource groups over REST: kept, changed, and in force on every topic when that is answered."""

from __future__ import annotations

from stage.http import Web
from stage.stage import Stage

G = "/admin/v2/resourcegroups"
N = "/admin/v2/namespaces/public/default"


def test_a_group_is_made_changed_and_deleted(web: Web, stage: Stage) -> None:
    assert web(f"GET {G}").json == []
    assert web(f"GET {G}/g").status == 404
    assert web(f"PUT {G}/g", {"publishRateInMsgs": 10, "dispatchRateInBytes": 5000}).status == 204
    assert web(f"PUT {G}/g", {"publishRateInMsgs": 20, "unknown": 1}).status == 204
    rates = {
        "publishRateInMsgs": 20,
        "publishRateInBytes": -1,
        "dispatchRateInMsgs": -1,
        "dispatchRateInBytes": 5000,
    }
    assert web(f"GET {G}/g").json == rates
    assert web(f"GET {G}").json == ["g"]
    again = Web(stage.restarted())
    assert again(f"GET {G}/g").json == rates
    assert again(f"DELETE {G}/g").status == 204
    assert again(f"DELETE {G}/g").status == 404


def test_what_is_refused(web: Web) -> None:
    for body in ({"publishRateInMsgs": "x"}, [], "x"):
        assert web(f"PUT {G}/g", body).status == 400
    assert web(f"PUT {G}/g", {"publishRateInMsgs": 2**31}).status == 412
    assert web(f"PUT {G}/{'g' * 2000}", {}).status == 400
    assert web(f"GET {G}").json == []
    none = web(f"POST {N}/resourcegroup/g")
    assert (none.status, "'g' does not exist" in none.reason) == (412, True)


def test_a_namespace_is_in_one_and_obeys_it_at_once(web: Web, stage: Stage) -> None:
    topic = stage.topic("persistent://public/default/t")
    subscription = stage.subscription(topic, "s")
    assert web(f"PUT {G}/g", {"publishRateInMsgs": 10, "dispatchRateInMsgs": 5}).status == 204
    assert web(f"GET {N}/resourcegroup").body == b""
    assert topic.group_throttle is None
    assert web(f"POST {N}/resourcegroup/g").status == 204
    assert web(f"GET {N}/resourcegroup").body == b"g"
    assert web(f"GET {N}").json["resource_group_name"] == "g"
    assert topic.group_throttle is not None
    assert topic.group_throttle.rate.messages == 10
    (shared,) = subscription.throttles
    assert shared.rate.messages == 5
    other = stage.subscription(stage.topic("persistent://public/default/later"), "s")
    assert list(other.throttles) == [shared], "one bucket is everybody's"
    used = web(f"DELETE {G}/g")
    assert (used.status, "public/default" in used.reason) == (412, True)
    assert web(f"PUT {G}/g", {"publishRateInMsgs": 0, "dispatchRateInMsgs": 7}).status == 204
    assert topic.group_throttle is None
    assert [one.rate.messages for one in subscription.throttles] == [7]
    assert web(f"DELETE {N}/resourcegroup").status == 204
    assert not subscription.throttles
    assert web(f"DELETE {G}/g").status == 204
