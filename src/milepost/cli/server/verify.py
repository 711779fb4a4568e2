"""`milepost verify`: checks a data directory offline, or a bucket.

Replays the journal, reads every entry of every ledger, decodes every subscription, and looks whether
they agree: checksums, entry ids without gaps, dense indexes, cursors that end where their log ends.
The directory is locked meanwhile; the catalog is looked at in a copy. Damage is named with file and
byte, and the exit code is 7. Buckets are looked at in `verify_bucket.py`, with the same check.

    topic                               ledgers  entries  messages  bytes  subscriptions
    persistent://public/default/orders        2      120       600  61440              1
    data: 1 topics, 120 entries, 600 messages: all intact
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from milepost.cli.exits import CommandFailed, Exit
from milepost.cli.output import chosen, note, output_option, show_rows
from milepost.errors import CorruptData, DataDirectoryLocked, MilepostError

if TYPE_CHECKING:
    from milepost.storage.catalog.catalog import Catalog, StateRow, TopicRow
    from milepost.storage.files import Files
    from milepost.storage.ledgers.ledger import Ledger
    from milepost.storage.ledgers.log import Log
    from milepost.storage.recovery import Recovered

COLUMNS = ("topic", "ledgers", "entries", "first", "end", "bytes", "subscriptions", "problems")
READ_ENTRIES = 4096
READ_SIZE_BYTES = 4 * 1024 * 1024


@dataclass
class TopicReport:
    name: str
    ledgers: int = 0
    entries: int = 0
    first_index: int = 0
    end_index: int = 0
    size_bytes: int = 0
    subscriptions: int = 0
    problems: list[str] = field(default_factory=list)

    @property
    def row(self) -> tuple[object, ...]:
        return (
            self.name,
            self.ledgers,
            self.entries,
            self.first_index,
            self.end_index,
            self.size_bytes,
            self.subscriptions,
            len(self.problems),
        )


@dataclass
class Report:
    topics: list[TopicReport] = field(default_factory=list)
    # Damage that belongs to no topic that is known.
    problems: list[str] = field(default_factory=list)
    # A torn tail: written and never acknowledged. No damage.
    cut_bytes: int = 0
    # What an operator may want to know, and is no damage.
    remarks: list[str] = field(default_factory=list)

    @property
    def all_problems(self) -> list[str]:
        return [
            *self.problems,
            *(f"{topic.name}: {problem}" for topic in self.topics for problem in topic.problems),
        ]


@click.command(
    help="Check a data directory, while no broker uses it, or a bucket (s3://, gs://, az://, file:///), "
    "which brokers may serve meanwhile. Nothing in it is changed."
)
@click.argument("data", default="data")
@click.option("--endpoint", default="", metavar="URL", help="As the setting `bucket_endpoint`.")
@click.option("--region", default="", metavar="NAME", help="As the setting `bucket_region`.")
def verify(data: str, endpoint: str, region: str) -> None:
    if "://" in data:
        from milepost.cli.server.verify_bucket import check_bucket

        shown(data, check_bucket(data, endpoint=endpoint, region=region))
        return
    for option, value in (("--endpoint", endpoint), ("--region", region)):
        if value:
            raise CommandFailed(f"{option} {value}: {data} is a directory, no bucket", Exit.USAGE)
    try:
        verify_directory(Path(data))
    except DataDirectoryLocked as error:
        raise CommandFailed(f"{error}; stop it, or verify a copy", Exit.CONFLICT) from None


def verify_directory(data: Path) -> None:
    from milepost.storage.shards import count_of, shard_path

    if (count := count_of(data)) is not None:
        raise CommandFailed(
            f"{data}: has {count} shards; verify each of them, as in `milepost verify "
            f"{shard_path(data, 0)}`",
            Exit.USAGE,
        )
    if not (data / "catalog.sqlite").exists():
        raise CommandFailed(
            f"{data}: not a data directory: it has no catalog.sqlite; name one, as in "
            "`milepost verify DIRECTORY`",
            Exit.NOT_FOUND,
        )
    shown(str(data), check(data))


def shown(data: str, report: Report) -> None:
    """Show what was found; `CommandFailed` if something is damaged."""
    show_rows(COLUMNS, [topic.row for topic in report.topics])
    problems = report.all_problems
    for problem in problems:
        note(f"damaged: {problem}")
    for remark in report.remarks:
        note(remark)
    if report.cut_bytes:
        note(f"{report.cut_bytes} bytes at the journal's end were never acknowledged: no damage")
    entries = sum(topic.entries for topic in report.topics)
    messages = sum(topic.end_index - topic.first_index for topic in report.topics)
    what = f"{data}: {len(report.topics)} topics, {entries} entries, {messages} messages"
    if problems:
        counted = "1 problem" if len(problems) == 1 else f"{len(problems)} problems"
        raise CommandFailed(
            f"{what}: {counted}; keep the files, restore from a copy, and report it",
            Exit.DATA,
        )
    if chosen() in (None, "table"):
        click.echo(f"{what}: all intact")


verify.params.append(output_option())


def check(data: Path) -> Report:
    """Everything that can be said of a directory. `DataDirectoryLocked` if a broker has it."""
    from milepost.storage.files import RealFiles
    from milepost.storage.lock import DirectoryLock

    lock = DirectoryLock(data)
    try:
        with _catalog(data) as catalog:
            return StoreCheck(RealFiles(data), catalog).run()
    finally:
        lock.release()


@contextmanager
def _catalog(data: Path) -> Iterator[Catalog]:
    """The catalog in a copy: to open a SQLite database is to write in it."""
    from milepost.storage.catalog.sqlite_catalog import FILE, SqliteCatalog

    with tempfile.TemporaryDirectory(prefix="milepost-verify-") as folder:
        copy = Path(folder) / FILE
        shutil.copyfile(data / FILE, copy)
        with suppress(FileNotFoundError):
            shutil.copyfile(data / f"{FILE}-wal", Path(folder) / f"{FILE}-wal")
        catalog = SqliteCatalog(copy)
        try:
            yield catalog
        finally:
            catalog.close()


class StoreCheck:
    """One look at a store. It stands in for the store that logs belong to, and takes nothing."""

    refused_through = -1

    def __init__(
        self, files: Files, catalog: Catalog, read: Callable[[int], None] = lambda ledger_id: None
    ) -> None:
        """`read` is told of each ledger that is not needed any more."""
        from milepost.storage.ledgers.log import RollPolicy

        # The rest of a LogOwner.
        self.files = files
        self._read = read
        self.roll_policy = RollPolicy()
        self._catalog = catalog
        self._logs: dict[int, Log] = {}

    def submit(self, *args: Any) -> int:
        raise AssertionError("a check writes nothing")

    def next_ledger_id(self) -> int:
        raise AssertionError("a check begins no ledger")

    def touched(self, ledger: Ledger) -> None:
        pass

    def run(self) -> Report:
        from milepost.storage.recovery import recover

        report = Report()
        found = recover(self.files, self._catalog, self._open_log, salvage=True)
        report.cut_bytes = found.report.cut_bytes
        report.problems += [str(damage) for damage in found.report.damages]
        for topic in self._catalog.topics():
            reason = found.damaged_topics.get(topic.topic_id)
            try:
                checked = None if reason else self._topic(topic, found)
            except Exception as failure:  # of this one: the others are looked at all the same
                checked, reason = None, f"{type(failure).__name__}: {failure}"
            report.topics.append(checked or TopicReport(topic.name, problems=[str(reason)]))
        return report

    def _open_log(self, topic_id: int) -> Log | None:
        row = self._catalog.topic_by_id(topic_id)
        return None if row is None else self._log(row)

    def _log(self, topic: TopicRow) -> Log:
        from milepost.storage.ledgers.ledger import Ledger
        from milepost.storage.ledgers.log import Log

        if topic.topic_id not in self._logs:
            ledgers = [Ledger(row) for row in self._catalog.ledgers(topic.topic_id)]
            self._logs[topic.topic_id] = Log(topic.topic_id, topic.name, ledgers, self)
        return self._logs[topic.topic_id]

    def _topic(self, topic: TopicRow, found: Recovered) -> TopicReport:
        log = self._log(topic)
        report = TopicReport(
            topic.name,
            ledgers=len(log.ledgers),
            entries=log.entry_count,
            first_index=log.first_index,
            end_index=log.end_index,
            size_bytes=log.size_bytes,
        )
        if log.damage:
            report.problems.append(log.damage)
        report.problems += map(str, self._catalog.losses().get(topic.topic_id, ()))
        next_index = log.first_index
        for ledger in log.ledgers:
            if ledger.first_index != next_index:
                report.problems.append(
                    f"ledger {ledger.ledger_id} begins at index {ledger.first_index}, "
                    f"not at {next_index}"
                )
            report.problems += self._ledger(log, ledger)
            self._read(ledger.ledger_id)
            next_index = ledger.end_index
        for state in self._catalog.states(topic.topic_id):
            if state.kind == "cursor":
                report.subscriptions += 1
                report.problems += self._cursor(state, log, found)
        return report

    def _ledger(self, log: Log, ledger: Ledger) -> Iterator[str]:
        """Read all entries: each has its checksum, and begins where the one before it ends."""
        from milepost.positions.ids import Position
        from milepost.storage.ledgers.ledger import ledger_path

        if ledger.stored.entries and not self.files.exists(ledger_path(ledger.ledger_id)):
            kept = f"{ledger.stored.entries} entries from index {ledger.first_index} on"
            yield f"{ledger_path(ledger.ledger_id)} is missing: {kept}"
            return
        entry_id, next_index = 0, ledger.first_index
        while entry_id < ledger.entries:
            try:
                entries = log.read(
                    Position(ledger.ledger_id, entry_id),
                    entries_max=READ_ENTRIES,
                    size_max=READ_SIZE_BYTES,
                )
            except Exception as error:
                ours = isinstance(error, MilepostError)
                yield str(error) if ours else f"entry {entry_id}: {type(error).__name__}: {error}"
                entry_id += 1
                next_index = -1
                continue
            for entry in entries:
                first = entry.last_index - entry.count + 1
                if next_index not in (-1, first):
                    yield f"entry {entry.position} begins at index {first}, not at {next_index}"
                next_index = entry.last_index + 1
            entry_id += len(entries)
        if next_index not in (-1, ledger.end_index):
            yield f"ledger {ledger.ledger_id} ends at index {next_index}, not at {ledger.end_index}"

    def _cursor(self, state: StateRow, log: Log, found: Recovered) -> Iterator[str]:
        from milepost.cursor import facts, snapshot
        from milepost.cursor.cursor import Cursor

        where = f"subscription {state.name}"
        if state.state_id in found.damaged_states:
            yield f"{where}: {found.damaged_states[state.state_id]}"
            return
        stored = self._catalog.snapshot(state.state_id)
        data: bytes | None = stored.data
        kept: Sequence[bytes] = stored.facts
        if state.state_id in found.snapshots:
            data, kept = found.snapshots[state.state_id][1], ()
        replayed = [fact for _, fact in found.facts.get(state.state_id, [])]
        try:
            cursor = snapshot.decode(data) if data else Cursor(log.first_index, log.first_index)
            cursor.extend(max(log.end_index, cursor.end))
            for fact in (*kept, *replayed):
                cursor.replay(facts.decode(fact))
        except CorruptData as error:
            yield f"{where}: {error}"
            return
        except Exception as error:
            yield f"{where}: {type(error).__name__}: {error}"
            return
        if cursor.end > log.end_index:
            yield f"{where} ends at index {cursor.end}, its log at {log.end_index}"
