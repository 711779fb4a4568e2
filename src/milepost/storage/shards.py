"""The directory of several shards: how many there are, and where each lies.

    data/shards.json            how many; written before the first shard, never changed
    data/registry.sqlite        tenants, namespaces and what they share (`registry.py`)
    data/shards/0, 1, …         each a data directory as one process has it

The number decides which shard has a topic, so it is that of the directory and not that of a start. A
directory of one process is refused here, and one of shards is refused there: neither is ever taken for
an empty one.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Final

from milepost.errors import CorruptData, UnknownFormat, WrongDataDirectory

FILE: Final = "shards.json"
FOLDER: Final = "shards"
FORMAT: Final = 1
# Of a ledger's number within its shard.
LEDGER_BITS: Final = 40


def shard_path(data: Path, number: int) -> Path:
    return data / FOLDER / str(number)


def first_ledger_id(number: int) -> int:
    """Ledgers of a shard are numbered from here on: no two shards have a ledger of one number, so that a
    message id is of one ledger in the whole directory."""
    return (number << LEDGER_BITS) + 1


def count_of(data: Path) -> int | None:
    """How many shards a directory has; None for one that is not of shards."""
    file = data / FILE
    try:
        text = file.read_text("utf-8")
    except (FileNotFoundError, NotADirectoryError):
        if are_begun(data):
            raise CorruptData(f"{file}: it is missing, and {data / FOLDER} is there") from None
        return None
    try:
        found = json.loads(text)
        version, count = found["format"], found["shards"]
    except (ValueError, KeyError, TypeError) as error:
        raise CorruptData(f"{file}: {error}") from None
    if version != FORMAT:
        raise UnknownFormat(f"{file}: format {version}; this release reads {FORMAT}")
    if type(count) is not int or count < 2:
        raise CorruptData(f"{file}: {count!r} shards; there are 2 or more")
    return count


def are_begun(data: Path) -> bool:
    """Has a shard anything in it? Empty folders are left by a first start that was killed."""
    return any((data / FOLDER).glob("*/*"))


def check_one(data: Path) -> None:
    """`WrongDataDirectory` for a directory of shards, before one process takes it for an empty one."""
    count = count_of(data)
    if count is not None:
        raise WrongDataDirectory(
            f"data directory {data} has {count} shards: start with --workers {count}"
        )


def check_shards(data: Path, count: int, *, of_one_process: bool) -> None:
    """`WrongDataDirectory` for a directory of one process, or of another number of shards."""
    found = count_of(data)
    if found is not None and found != count:
        raise WrongDataDirectory(
            f"data directory {data} has {found} shards, not {count}: start with --workers {found}, "
            "or --workers auto"
        )
    for number in range(count if found is not None else 0):
        if not shard_path(data, number).is_dir():
            raise CorruptData(f"{shard_path(data, number)}: the shard is missing")
    if found is None and of_one_process:
        raise WrongDataDirectory(
            f"data directory {data} is of a broker without workers: start without --workers, or "
            "choose another --data"
        )


def make(data: Path, count: int) -> None:
    """Make the folders of a new directory, then write down their number; durable when this returns."""
    if count_of(data) is not None:
        return
    for number in range(count):
        shard_path(data, number).mkdir(mode=0o700, parents=True, exist_ok=True)
    _sync(data / FOLDER)
    new = data / f"{FILE}.new"
    with new.open("w", encoding="utf-8") as file:
        file.write(json.dumps({"format": FORMAT, "shards": count}) + "\n")
        file.flush()
        os.fsync(file.fileno())
    new.rename(data / FILE)
    _sync(data)


def _sync(folder: Path) -> None:
    opened = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)
