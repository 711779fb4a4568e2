"""Errors of ours lose their way at the border; others keep it."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterator
from importlib.machinery import ModuleSpec
from types import ModuleType

import pytest

from milepost.errors import InvalidOption
from milepost.spark.border import plainly, quiet_hang_ups


def deep(error: Exception) -> None:
    raise error


@plainly
def called(error: Exception | None) -> int:
    if error is not None:
        try:
            raise KeyError("behind it")
        except KeyError:
            deep(error)
    return 1


@plainly
def iterated(error: Exception | None) -> Iterator[int]:
    yield from (1, 2)
    if error is not None:
        deep(error)


def test_results_pass() -> None:
    assert called(None) == 1
    assert list(iterated(None)) == [1, 2]
    assert called.__name__ == "called"


@pytest.mark.parametrize("run", [called, lambda error: list(iterated(error))])
def test_an_error_of_ours_is_a_sentence(run: Callable[[Exception], object]) -> None:
    with pytest.raises(InvalidOption, match="no such thing") as raised:
        run(InvalidOption("no such thing"))
    said = "".join(traceback.format_exception(raised.value))
    assert "in deep" not in said
    assert "behind it" not in said


@pytest.mark.parametrize("run", [called, lambda error: list(iterated(error))])
def test_a_bug_keeps_its_way(run: Callable[[Exception], object]) -> None:
    with pytest.raises(ZeroDivisionError) as raised:
        run(ZeroDivisionError())
    assert "in deep" in "".join(traceback.format_exception(raised.value))


def daemon(name: str) -> ModuleType:
    """A process that runs a module, as that module sees itself."""
    made = ModuleType("__main__")
    made.__spec__ = ModuleSpec(name, None)
    made.traceback = traceback  # type: ignore[attr-defined]
    return made


@pytest.mark.parametrize(
    ("error", "is_told"),
    [(BrokenPipeError(32, "pipe"), False), (ConnectionResetError(), False), (OSError("x"), True)],
)
def test_a_worker_that_spark_hung_up_on_prints_nothing(
    error: Exception, is_told: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    made = daemon("pyspark.daemon")
    quiet_hang_ups(made)
    quiet_hang_ups(made)
    try:
        raise error
    except OSError:
        made.traceback.print_exc()
        assert type(error).__name__ in made.traceback.format_exc()
    assert ("Traceback" in capsys.readouterr().err) is is_told


def test_other_processes_print_what_they_did() -> None:
    made = daemon("pytest")
    quiet_hang_ups(made)
    assert made.traceback is traceback
    quiet_hang_ups()
