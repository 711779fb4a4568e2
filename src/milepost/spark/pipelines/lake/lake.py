"""A lake of Parquet files with manifests.

    lake/
      data/….parquet            rows of one slice of one partition; a file that no manifest names is garbage
      manifests/00000007.json   one published step: from which offsets to which, and by which files
      manifests/00000008.json   a base: everything that counts, after small files were merged

A manifest is published by giving it its name, which can be done once: so two archives into one lake
cannot both take step 7, and a step that was killed before is as if it had never been. Ranges are
half-open and follow each other without a gap; `Lake.load` refuses a lake in which they do not. Nothing
that is published is ever changed. A base stands for all manifests before it; what it has dropped stays
for a while, for those who read the lake as it was, and is swept later.

    lake = Lake.load(Path("lake"))
    lake.end                                # {'persistent://public/default/t': 1200}
"""

from __future__ import annotations

import json
import os
import uuid
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

from pyspark.errors import PySparkException
from pyspark.sql.types import DataType

from milepost.errors import Busy, CorruptData
from milepost.spark.offsets import Offsets, canonical, checked
from milepost.spark.pipelines.lake.parts import Part
from milepost.spark.pipelines.lake.schema_columns import type_from_json, type_to_json

FORMAT: Final = 1


@dataclass(frozen=True)
class LakeFile:
    """Rows of `[first_index, end_index)` of one partition, in their order."""

    path: str
    """Below the lake's directory."""
    topic: str
    first_index: int
    end_index: int
    rows: int
    size_bytes: int = 0
    corrupt: int = 0
    """Rows whose value is not what its schema says."""


@dataclass(frozen=True)
class Step:
    """What one manifest says."""

    number: int
    start: Offsets
    end: Offsets
    files: tuple[LakeFile, ...]
    is_base: bool = False
    """All that counts, from the lake's start on, in place of everything before."""
    dropped: tuple[str, ...] = ()
    """Of a base: files that counted until then."""
    decoded: Any = None
    """The type of the schema's column from here on, as Spark says it in JSON; None: there is none yet."""


class Lake:
    def __init__(self, directory: Path, steps: Sequence[Step]) -> None:
        self.directory = directory
        self.steps = tuple(steps)
        """From the last base on, or from the beginning."""
        found = [one for step in steps for one in step.files]
        self.files = sorted(found, key=lambda one: (one.topic, one.first_index))
        """All that count, in the order of each partition's indexes."""

    @staticmethod
    def load(directory: Path) -> Lake:
        """What is published; an empty lake if nothing is, or there is no directory."""
        steps: list[Step] = []
        for path in sorted((directory / "manifests").glob("*.json"), reverse=True):
            step = _step(path)
            if steps and step.number != steps[-1].number - 1:
                break  # told below: a number is missing
            steps.append(step)
            if step.is_base:
                break
        steps.reverse()
        if steps and steps[0].number and not steps[0].is_base:
            raise CorruptData(f"{directory}: manifest {steps[0].number - 1} is missing")
        for step, after in pairwise(steps):
            for topic, index in step.end.items():
                if after.start.get(topic) != index:
                    raise CorruptData(
                        f"{directory}: manifest {after.number} starts at {after.start.get(topic)} of "
                        f"{topic}, the one before it ends at {index}"
                    )
        for step in steps:
            _check_files(directory, step)
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
    def rows(self) -> int:
        return sum(one.rows for one in self.files)

    @property
    def decoded(self) -> DataType | None:
        """The type of the schema's column; None: it has none."""
        return None if self._decoded is None else type_from_json(self._decoded)

    @property
    def parts(self) -> list[Part]:
        return [Part(one.topic, one.first_index, one.end_index, (one.path,)) for one in self.files]

    def paths(self, topics: Iterable[str]) -> list[str]:
        """The files that have rows of these partitions, and of no others."""
        wanted = set(topics)
        return [str(self.path_of(one)) for one in self.files if one.topic in wanted and one.rows]

    def path_of(self, one: LakeFile) -> Path:
        return self.directory / one.path

    def prepare(self) -> None:
        """Make the directories, before files are written."""
        (self.directory / "data").mkdir(parents=True, exist_ok=True)

    def publish(
        self,
        start: Offsets,
        end: Offsets,
        files: Sequence[LakeFile],
        decoded: DataType | None = None,
    ) -> Lake:
        """Take the next step, for good; `Busy` if another job has taken it."""
        said = self._decoded if decoded is None else type_to_json(decoded)
        step = Step(self._next(), canonical(start), canonical(end), tuple(files), decoded=said)
        self._name(step)
        return Lake(self.directory, [*self.steps, step])

    def rebase(self, files: Sequence[LakeFile]) -> Lake:
        """Let these files count in place of all that count now: the same ranges and as many rows."""
        rows = sum(one.rows for one in files)
        assert rows == self.rows, f"{rows} rows in place of {self.rows}"
        kept = {one.path for one in files}
        dropped = tuple(one.path for one in self.files if one.path not in kept)
        step = Step(self._next(), self.start, self.end, tuple(files), True, dropped, self._decoded)
        self._name(step)
        return Lake(self.directory, [step])

    def sweep(self, now_s: float, age_s: float) -> int:
        """Delete what does not count and has not for so long. How many files that were.

        A file that a base dropped counted until that base was published; any other that no manifest
        names is of a step that was killed, or is being written: its own age tells.
        """
        if not self.steps:
            return 0
        folder = self.directory / "manifests"
        manifests = {path: path.stat().st_mtime for path in folder.glob("*.json")}
        current = {one.path for one in self.files}
        ages: dict[str, float] = {}
        for path, written_s in manifests.items():
            for name in _step(path).dropped:
                ages[name] = max(ages.get(name, 0.0), written_s)
        for path in (self.directory / "data").glob("*.parquet"):
            ages.setdefault(f"data/{path.name}", path.stat().st_mtime)
        old = [name for name, at in ages.items() if now_s - at > age_s and name not in current]
        swept = 0
        for name in old:
            path = self.directory / name
            swept += path.exists()
            path.unlink(missing_ok=True)
        # Last: it is they who know since when a file does not count. One that is not read any more stays
        # as long as what it names might be wanted.
        since = manifests.get(folder / f"{self.steps[0].number:08}.json", now_s)
        for path in sorted(manifests):
            if int(path.stem) < self.steps[0].number and now_s - since > age_s:
                path.unlink(missing_ok=True)
        return swept

    @property
    def _decoded(self) -> Any:
        return self.steps[-1].decoded if self.steps else None

    def _next(self) -> int:
        return self.steps[-1].number + 1 if self.steps else 0

    def _name(self, step: Step) -> None:
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
        sync_directory(folder)


def sync_directory(path: Path) -> None:
    """Let the names in a directory be on disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _step(path: Path) -> Step:
    try:
        found: dict[str, Any] = json.loads(path.read_text("utf-8"))
        if found.pop("format") != FORMAT:
            raise CorruptData(f"{path}: a format that this release does not know")
        files = tuple(LakeFile(**one) for one in found["files"])
        number = int(found["number"])
        if number != int(path.stem):
            raise ValueError(f"it says that it is number {number}")
        return Step(
            number,
            checked(found["start"]),
            checked(found["end"]),
            files,
            bool(found.get("is_base")),
            tuple(map(str, found.get("dropped", ()))),
            _checked_type(found.get("decoded")),
        )
    except (ValueError, KeyError, TypeError, AttributeError, PySparkException) as error:
        raise CorruptData(f"{path} is no manifest: {error}") from None


def _checked_type(said: Any) -> Any:
    if said is not None:
        type_from_json(said)
    return said


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
