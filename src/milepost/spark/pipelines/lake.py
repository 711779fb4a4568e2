"""A lake: Parquet files and the manifests that say which of them count, and for which indexes.

    lake/
      data/….parquet            rows of one slice of one partition; a file that no manifest names is garbage
      manifests/00000007.json   one published step: from which offsets to which, and by which files

A manifest is published by giving it its name, which can be done once: so two archives into one lake
cannot both take step 7, and a step that was killed before is as if it had never been. Ranges are
half-open and follow each other without a gap; `Lake.load` refuses a lake in which they do not. Nothing
that is published is ever changed.

    lake = Lake.load(Path("lake"))
    lake.end                                # {'persistent://public/default/t': 1200}
"""

from __future__ import annotations

import json
import os
import uuid
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from milepost.errors import Busy, CorruptData
from milepost.spark.offsets import Offsets, canonical, checked

FORMAT: Final = 1


@dataclass(frozen=True)
class LakeFile:
    """Rows of `[first_index, end_index)` of one partition."""

    path: str
    """Below the lake's directory."""
    topic: str
    first_index: int
    end_index: int
    rows: int


@dataclass(frozen=True)
class Step:
    """What one manifest says."""

    number: int
    start: Offsets
    end: Offsets
    files: tuple[LakeFile, ...]


class Lake:
    def __init__(self, directory: Path, steps: Sequence[Step]) -> None:
        self.directory = directory
        self.steps = tuple(steps)

    @staticmethod
    def load(directory: Path) -> Lake:
        """What is published; an empty lake if nothing is, or there is no directory."""
        steps = [_step(path) for path in sorted((directory / "manifests").glob("*.json"))]
        end: Offsets = {}
        for number, step in enumerate(steps):
            if step.number != number:
                raise CorruptData(f"{directory}: manifest {number} is missing")
            for topic, index in end.items():
                if step.start.get(topic) != index:
                    raise CorruptData(
                        f"{directory}: manifest {number} starts at {step.start.get(topic)} of {topic}, "
                        f"the one before it ends at {index}"
                    )
            _check_files(directory, step)
            end = step.end
        return Lake(directory, steps)

    @property
    def start(self) -> Offsets:
        """Where each partition begins."""
        found: Offsets = {}
        for step in reversed(self.steps):
            found |= step.start
        return canonical(found)

    @property
    def end(self) -> Offsets:
        return self.steps[-1].end if self.steps else {}

    @property
    def files(self) -> list[LakeFile]:
        """All that count, in the order of each partition's indexes."""
        found = [one for step in self.steps for one in step.files]
        return sorted(found, key=lambda one: (one.topic, one.first_index))

    @property
    def rows(self) -> int:
        return sum(one.rows for one in self.files)

    def path_of(self, one: LakeFile) -> Path:
        return self.directory / one.path

    def publish(self, start: Offsets, end: Offsets, files: Sequence[LakeFile]) -> Lake:
        """Take the next step, for good; `Busy` if somebody else has taken it."""
        step = Step(len(self.steps), canonical(start), canonical(end), tuple(files))
        _check_files(self.directory, step)
        folder = self.directory / "manifests"
        folder.mkdir(parents=True, exist_ok=True)
        staged = folder / f".{uuid.uuid4().hex}"
        text = json.dumps({"format": FORMAT, **asdict(step)}, sort_keys=True)
        with staged.open("w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        try:
            # A link is refused where the name is taken, which a renaming is not.
            os.link(staged, folder / f"{step.number:08}.json")
        except FileExistsError:
            raise Busy(f"{self.directory}: another archive has taken step {step.number}") from None
        finally:
            staged.unlink()
        return Lake(self.directory, [*self.steps, step])


def prepare(directory: Path) -> None:
    """Make the directories of a lake."""
    (directory / "data").mkdir(parents=True, exist_ok=True)


def _step(path: Path) -> Step:
    try:
        found: dict[str, Any] = json.loads(path.read_text("utf-8"))
        if found.pop("format") != FORMAT:
            raise CorruptData(f"{path}: a format that this release does not know")
        files = tuple(LakeFile(**one) for one in found["files"])
        return Step(int(found["number"]), checked(found["start"]), checked(found["end"]), files)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise CorruptData(f"{path} is no manifest: {error}") from None


def _check_files(directory: Path, step: Step) -> None:
    """The files of a step are its ranges, without a gap."""
    for topic, end in step.end.items():
        at = step.start.get(topic, end)
        for one in sorted(
            (one for one in step.files if one.topic == topic), key=lambda one: one.first_index
        ):
            if one.first_index != at:
                raise CorruptData(
                    f"{directory}: step {step.number} has {topic} up to {at}, then from {one.first_index}"
                )
            at = one.end_index
        if at != end:
            raise CorruptData(
                f"{directory}: step {step.number} has {topic} up to {at}, not to {end}"
            )
