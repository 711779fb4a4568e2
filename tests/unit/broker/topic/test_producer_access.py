"""ProducerAccess: each cell of the table, then random histories."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from milepost.broker.topic.producer_access import AccessMode, Admission, ProducerAccess, Standing
from milepost.errors import ProducerBusy, ProducerFenced

SHARED, EXCLUSIVE = AccessMode.SHARED, AccessMode.EXCLUSIVE
WAIT, FENCE = AccessMode.WAIT_FOR_EXCLUSIVE, AccessMode.EXCLUSIVE_WITH_FENCING
ALONE = [EXCLUSIVE, WAIT, FENCE]


def granted(admission: Admission[str], epoch: int | None, store: int | None = None) -> bool:
    return (
        admission.standing is Standing.GRANTED
        and admission.epoch == epoch
        and admission.epoch_to_store == store
        and admission.error is None
    )


def refusal(admission: Admission[str]) -> type:
    assert admission.standing is Standing.REFUSED
    assert admission.epoch is None
    assert admission.epoch_to_store is None
    assert not admission.to_close
    return type(admission.error)


def test_modes_have_the_numbers_of_the_wire() -> None:
    assert [SHARED, EXCLUSIVE, WAIT, FENCE] == [0, 1, 2, 3]
    access = ProducerAccess[str]()
    assert granted(access.admit("a", 1), 0, 0)


# ── the table ─────────────────────────────────────────────────────────────────────────────────────


def test_shared_producers_share_and_need_no_epoch() -> None:
    access = ProducerAccess[str](epoch=7)
    assert granted(access.admit("a", SHARED), None)
    assert granted(access.admit("b", SHARED, claimed_epoch=3), None)
    assert access.epoch == 7


@pytest.mark.parametrize("mode", ALONE)
def test_on_an_empty_topic_everyone_alone_is_granted_the_next_epoch(mode: AccessMode) -> None:
    assert granted(ProducerAccess[str]().admit("a", mode), 0, 0)
    assert granted(ProducerAccess[str](epoch=4).admit("a", mode), 5, 5)


@pytest.mark.parametrize("first", ALONE)
def test_a_shared_producer_is_busy_out_while_somebody_is_alone(first: AccessMode) -> None:
    access = ProducerAccess[str]()
    access.admit("a", first)
    assert refusal(access.admit("b", SHARED)) is ProducerBusy
    assert "b" not in access


def test_a_shared_producer_is_busy_out_while_somebody_waits() -> None:
    access = ProducerAccess[str]()
    access.admit("a", SHARED)
    access.admit("w", WAIT)
    assert refusal(access.admit("b", SHARED)) is ProducerBusy


@pytest.mark.parametrize("first", [SHARED, *ALONE])
def test_an_exclusive_producer_is_fenced_out_while_anybody_is_there(first: AccessMode) -> None:
    access = ProducerAccess[str]()
    access.admit("a", first)
    assert refusal(access.admit("b", EXCLUSIVE)) is ProducerFenced
    assert "a" in access


@pytest.mark.parametrize("first", [SHARED, *ALONE])
def test_one_that_waits_gets_its_turn_when_the_other_leaves(first: AccessMode) -> None:
    access = ProducerAccess[str]()
    before = access.admit("a", first).epoch
    assert access.admit("b", WAIT).standing is Standing.WAITING
    (promoted,) = access.leave("a")
    assert promoted.producer == "b"
    epoch = 0 if before is None else before + 1
    assert granted(promoted, epoch, epoch)
    assert access.is_alone("b")


def test_the_last_shared_producer_to_leave_gives_way() -> None:
    access = ProducerAccess[str]()
    access.admit("a", SHARED)
    access.admit("b", SHARED)
    access.admit("w", WAIT)
    assert access.leave("a") == []
    assert [admission.producer for admission in access.leave("b")] == ["w"]


def test_those_who_wait_come_in_their_order_one_at_a_time() -> None:
    access = ProducerAccess[str]()
    access.admit("a", EXCLUSIVE)
    for name in "bcd":
        access.admit(name, WAIT)
    assert access.leave("c") == []
    assert [(a.producer, a.epoch) for a in access.leave("a")] == [("b", 1)]
    assert [(a.producer, a.epoch) for a in access.leave("b")] == [("d", 2)]
    assert access.leave("d") == []
    assert granted(access.admit("e", SHARED), None)


def test_fencing_puts_everybody_out() -> None:
    access = ProducerAccess[str]()
    access.admit("a", SHARED)
    access.admit("b", SHARED)
    access.admit("w", WAIT)
    admission = access.admit("f", FENCE)
    assert granted(admission, 0, 0)
    assert admission.to_close == ("a", "b")
    assert admission.to_refuse == ("w",)
    assert access.is_alone("f")
    # The closing of those put out is reported later, and promotes nobody.
    assert [access.leave(name) for name in "abw"] == [[], [], []]
    assert access.is_alone("f")
    access.check()


def test_fencing_an_exclusive_producer() -> None:
    access = ProducerAccess[str]()
    access.admit("a", EXCLUSIVE)
    admission = access.admit("f", FENCE)
    assert granted(admission, 1, 1)
    assert admission.to_close == ("a",)
    assert refusal(access.admit("a", EXCLUSIVE, claimed_epoch=0)) is ProducerFenced


# ── reconnecting ──────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("mode", ALONE)
def test_who_reconnects_before_anybody_else_came_keeps_its_epoch(mode: AccessMode) -> None:
    access = ProducerAccess[str]()
    access.admit("a", mode)
    access.leave("a")
    assert granted(access.admit("a again", mode, claimed_epoch=0), 0)


@pytest.mark.parametrize("mode", ALONE)
def test_so_it_does_after_the_broker_restarted(mode: AccessMode) -> None:
    assert granted(ProducerAccess[str](epoch=5).admit("a", mode, claimed_epoch=5), 5)


@pytest.mark.parametrize("mode", ALONE)
@pytest.mark.parametrize("is_still_there", [True, False])
def test_an_older_epoch_is_fenced(mode: AccessMode, is_still_there: bool) -> None:
    access = ProducerAccess[str]()
    access.admit("a", EXCLUSIVE)
    access.leave("a")
    access.admit("b", EXCLUSIVE)
    if not is_still_there:
        access.leave("b")
    assert refusal(access.admit("a", mode, claimed_epoch=0)) is ProducerFenced
    # Upstream's fencing mode closes everybody before it finds out.
    assert access.is_alone("b") == is_still_there


@pytest.mark.parametrize("mode", ALONE)
def test_who_is_back_before_its_old_session_was_missed_takes_its_place(mode: AccessMode) -> None:
    access = ProducerAccess[str]()
    access.admit("a", mode)
    access.admit("w", WAIT)
    admission = access.admit("a again", mode, claimed_epoch=0)
    assert granted(admission, 1, 1)  # so that the old session can never come back
    assert admission.to_close == ("a",)
    assert access.leave("a") == []
    assert access.is_alone("a again")


def test_an_epoch_of_another_life_of_the_topic_is_a_newcomers() -> None:
    assert granted(ProducerAccess[str]().admit("a", EXCLUSIVE, claimed_epoch=2**63), 0, 0)
    assert granted(ProducerAccess[str](epoch=1).admit("a", EXCLUSIVE, claimed_epoch=9), 2, 2)


def test_a_claim_in_line_is_void_once_somebody_else_had_the_topic() -> None:
    """Upstream grants it, and the topic's epoch falls."""
    access = ProducerAccess[str]()
    access.admit("a", EXCLUSIVE)
    access.leave("a")
    access.admit("s", SHARED)
    access.admit("b", WAIT)
    access.admit("a", WAIT, claimed_epoch=0)
    first, second = access.leave("s")
    assert (first.producer, first.epoch) == ("b", 1)
    assert second.producer == "a"
    assert refusal(second) is ProducerFenced
    access.check()


def test_a_claim_first_in_line_is_honoured() -> None:
    access = ProducerAccess[str]()
    access.admit("a", EXCLUSIVE)
    access.leave("a")
    access.admit("s", SHARED)
    access.admit("a", WAIT, claimed_epoch=0)
    (promoted,) = access.leave("s")
    assert granted(promoted, 0)


def test_an_epoch_that_could_not_be_stored_is_not_given_again() -> None:
    access = ProducerAccess[str]()
    assert access.admit("a", EXCLUSIVE).epoch_to_store == 0
    access.leave("a")
    assert access.admit("b", EXCLUSIVE).epoch_to_store == 1


def test_a_producer_cannot_come_twice() -> None:
    access = ProducerAccess[str]()
    access.admit("a", SHARED)
    with pytest.raises(AssertionError, match="a is here already"):
        access.admit("a", EXCLUSIVE)


# ── histories ─────────────────────────────────────────────────────────────────────────────────────

steps = st.one_of(
    st.tuples(
        st.just("admit"), st.sampled_from("abcd"), st.sampled_from(AccessMode), st.booleans()
    ),
    st.tuples(st.just("leave"), st.sampled_from("abcd")),
    st.tuples(st.sampled_from(["unload", "give up"]), st.just("")),
)


def test_a_producer_that_comes_back_to_its_place_and_fences_tells_those_in_line() -> None:
    access = ProducerAccess[str](7)
    access.keep_place()
    assert access.admit("a", AccessMode.WAIT_FOR_EXCLUSIVE).standing is Standing.WAITING
    back = access.admit("b", AccessMode.EXCLUSIVE_WITH_FENCING, 7)
    assert (back.standing, back.epoch, back.to_refuse) == (Standing.GRANTED, 7, ("a",))
    assert "a" not in access


@given(st.lists(steps, max_size=40))
def test_nobody_believes_to_be_alone_who_is_not(script: list[tuple]) -> None:
    """Believers are followed from outside, by what they and the others were told."""
    access = ProducerAccess[str]()
    sharing: set[str] = set()
    alone: dict[str, int] = {}
    waiting: set[str] = set()
    epochs: dict[str, int] = {}  # the last each was told
    owners: dict[int, str] = {}  # who was ever told which
    decided: list[Admission[str]]
    for step, name, *args in script:
        if step == "admit":
            if name in sharing | waiting or name in alone:
                continue
            mode, claims = args
            decided = [access.admit(name, mode, epochs.get(name) if claims else None)]
        elif step == "unload":
            is_owned, access = access.is_owned, ProducerAccess[str](access.epoch)
            if is_owned:
                access.keep_place()
            for believers in (sharing, waiting, alone):
                believers.clear()
            decided = []
        elif step == "give up":
            decided = access.give_place_up()
        else:
            sharing.discard(name)
            waiting.discard(name)
            alone.pop(name, None)
            decided = access.leave(name)
        for admission in decided:
            for gone in (*admission.to_close, *admission.to_refuse):
                sharing.discard(gone)
                waiting.discard(gone)
                alone.pop(gone, None)
            waiting.discard(admission.producer)
            if admission.standing is Standing.WAITING:
                waiting.add(admission.producer)
            elif admission.standing is Standing.GRANTED and admission.epoch is None:
                sharing.add(admission.producer)
            elif admission.standing is Standing.GRANTED:
                epoch = admission.epoch
                assert owners.setdefault(epoch, admission.producer) == admission.producer
                assert epoch == max(owners)
                assert admission.epoch_to_store in (None, epoch)
                assert (admission.epoch_to_store is None) == (
                    epochs.get(admission.producer) == epoch
                )
                alone[admission.producer] = epochs[admission.producer] = epoch
        access.check()
        assert len(alone) + bool(sharing) <= 1
        assert not waiting or alone or sharing or access.is_owned, "they wait for nobody"
        assert all(name in access for name in sharing | waiting | alone.keys())
        assert all(access.is_alone(name) for name in alone)
