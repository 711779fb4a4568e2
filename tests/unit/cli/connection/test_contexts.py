"""The file of contexts: for its owner, whole, and not trusted blindly."""

from __future__ import annotations

from pathlib import Path

import pytest

from milepost.cli.connection.contexts import Contexts, contexts_file, load_contexts, save_contexts
from milepost.cli.exits import CommandFailed, Exit


def test_no_file_is_no_context() -> None:
    assert load_contexts() == Contexts()


def test_what_is_saved_is_loaded() -> None:
    contexts = Contexts()
    contexts.add("staging", {"admin_url": "http://s:8080", "token": "t", "url": None, "else": 1})
    save_contexts(contexts)
    assert load_contexts() == Contexts(
        "staging", {"staging": {"admin_url": "http://s:8080", "token": "t"}}
    )
    assert contexts_file().stat().st_mode & 0o777 == 0o600
    assert [one.name for one in contexts_file().parent.iterdir()] == ["contexts.json"]


def test_the_first_is_the_current_one_until_it_is_removed() -> None:
    contexts = Contexts()
    contexts.add("a", {})
    contexts.add("b", {})
    assert contexts.current == "a"
    contexts.remove("a")
    assert contexts.current is None
    with pytest.raises(CommandFailed, match="there is none of that name") as caught:
        contexts.remove("a")
    assert caught.value.code is Exit.NOT_FOUND


@pytest.mark.parametrize("name", ["", "a b", "../x", "ä", "x" * 65])
def test_what_is_no_name(name: str) -> None:
    with pytest.raises(CommandFailed, match="a name is 1 to 64"):
        Contexts().add(name, {})


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", '{"contexts": []}', '{"contexts": {"a": 1}}', "[" * 9999]
)
def test_a_file_that_is_something_else(text: str) -> None:
    contexts_file().write_text(text, "utf-8")
    with pytest.raises(CommandFailed, match="not a file of contexts"):
        load_contexts()


def test_where_it_is_without_a_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MILEPOST_CONTEXTS")
    monkeypatch.setenv("XDG_CONFIG_HOME", "/x")
    assert contexts_file() == Path("/x/milepost/contexts.json")
