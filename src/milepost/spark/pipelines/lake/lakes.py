"""Opens a lake of either kind. What is in a directory tells which.

lake = open_lake(Path("lake"))              # as it is
lake = open_lake(Path("new"), kind="delta")  # as it shall be; refused if it is of the other kind
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final, Protocol

from pyspark.sql.types import DataType

from milepost.errors import InvalidOption
from milepost.spark.offsets import Offsets
from milepost.spark.pipelines.lake.lake import Lake, LakeFile
from milepost.spark.pipelines.lake.parts import Part

KINDS: Final = ("parquet", "delta")


class AnyLake(Protocol):
    """What pipelines need of one."""

    @property
    def directory(self) -> Path: ...
    @property
    def start(self) -> Offsets: ...
    @property
    def end(self) -> Offsets: ...
    @property
    def parts(self) -> list[Part]: ...
    @property
    def files(self) -> Sequence[object]: ...
    @property
    def rows(self) -> int: ...
    @property
    def decoded(self) -> DataType | None: ...
    def prepare(self) -> None: ...
    def paths(self, topics: Iterable[str]) -> list[str]: ...
    def publish(
        self,
        start: Offsets,
        end: Offsets,
        files: Sequence[LakeFile],
        decoded: DataType | None = None,
    ) -> AnyLake: ...


def open_lake(directory: Path, *, kind: str | None = None, topics: Iterable[str] = ()) -> AnyLake:
    """The lake in a directory; an empty one of the kind asked for, if there is none."""
    found = kind_of(directory)
    wanted = kind or found or "parquet"
    if wanted not in KINDS:
        raise InvalidOption(f"there is no format {wanted!a}; there are {', '.join(KINDS)}")
    if found is not None and found != wanted:
        raise InvalidOption(f"{directory} is a lake of the format {found}, not {wanted}")
    if wanted == "parquet":
        return Lake.load(directory)
    from milepost.spark.pipelines.lake.delta import DeltaLake

    return DeltaLake.load(directory, topics)


def kind_of(directory: Path) -> str | None:
    """None: there is no lake."""
    if (directory / "_delta_log").is_dir():
        return "delta"
    return "parquet" if (directory / "manifests").is_dir() else None
