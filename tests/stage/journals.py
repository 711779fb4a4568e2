"""A journal on a disk in memory, and what recovery would read there."""

from __future__ import annotations

from milepost.errors import PersistenceError
from milepost.storage.header import HEADER_SIZE, JOURNAL, FileHeader
from milepost.storage.journal.journal import FOLDER, SUFFIX, Journal, file_name
from milepost.storage.journal.records import FACT, Scan, scan, seed_of
from milepost.testing import MemoryFiles

INCARNATION = bytes(range(16))

Answer = tuple[str, PersistenceError | None]


class Desk:
    """A journal on a disk in memory, and the answers it gave."""

    def __init__(self, files: MemoryFiles | None = None) -> None:
        self.files = files or MemoryFiles(folders=[FOLDER])
        self.answers: list[Answer] = []
        self.journal = Journal(
            self.files,
            INCARNATION,
            previous_file=0,
            previous_size=0,
            file_number=1,
            next_sequence=1,
            ahead=1024,
            piece=256,
        )

    def submit(self, *names: str) -> None:
        for name in names:
            self.journal.submit(FACT, 7, (name.encode(),), self.done(name))

    def done(self, name: str):  # type: ignore[no-untyped-def]
        return lambda error: self.answers.append((name, error))

    @property
    def stored(self) -> list[str]:
        return [name for name, error in self.answers if error is None]

    @property
    def refused(self) -> list[str]:
        return [name for name, error in self.answers if error is not None]

    def error(self, name: str) -> PersistenceError:
        (error,) = [error for answered, error in self.answers if answered == name]
        assert error is not None
        return error


def chain(files: MemoryFiles) -> list[Scan]:
    """The files that count, oldest first, as recovery reads them."""
    contents = {
        int(path[-24:-8], 16): data
        for path, data in files.contents().items()
        if path.endswith(SUFFIX)
    }
    scans: list[Scan] = []
    number, valid = max(contents), None
    while number:
        path, data = file_name(number), contents[number][:valid]
        header = FileHeader.decode(data, path, JOURNAL, INCARNATION)
        found = scan(
            data, HEADER_SIZE, path, header.d, seed_of(INCARNATION), whole=valid is not None
        )
        scans.insert(0, found)
        number, valid = header.b, header.c
    return scans


def bodies(files: MemoryFiles) -> list[str]:
    """Everything recovery would replay; fails when it would report damage."""
    scans = chain(files)
    assert [damage for found in scans for damage in found.damages] == []
    return [record.body.decode() for found in scans for record in found.records]
