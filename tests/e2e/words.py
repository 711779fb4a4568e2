"""Random command lines: the words of the command line with hostile values, run in this process.

A line is a real command with some of its options, each with a value that its type likes, or one that
nothing likes: empty, huge, negative, not a number, not text, a file that is missing or binary, a name
that is no name. The broker is a real one, with a topic, a partitioned topic, a subscription and a
namespace that the lines may name, move and delete.

    with Desk(folder) as desk:
        ended = desk.run(["topics", "stats", "orders"])
        ended.code, ended.complaint
"""

from __future__ import annotations

import importlib
import io
import os
import random
import signal
import sys
from collections.abc import Iterator
from contextlib import ExitStack, redirect_stderr, redirect_stdout, suppress
from pathlib import Path
from types import FrameType, TracebackType
from typing import NamedTuple, Self

import click

from milepost import testing
from milepost.admin import Admin, AdminError
from milepost.cli import main

TOPIC, PARTED, SUBSCRIPTION = "orders", "parted", "billing"
# A line that waits for messages, or for a broker, is interrupted after this time.
PATIENCE_S = 1.0
# What the lines delete is made again after so many of them.
TIDY_EVERY = 25

LOADED = (
    "milepost.rest.serve",
    "milepost.client.client",
    "milepost.broker.auth.security",
    "milepost.cli.migrate.comparing",
    "milepost.cli.migrate.plan",
    "milepost.spark.pipelines.archive",
    "milepost.spark.pipelines.replay",
    "milepost.spark.pipelines.verify",
    "milepost.spark.pipelines.progress",
    "milepost.spark.pipelines.report.report",
)

# Started for real they would serve, or start processes of their own: the values are what is tried.
ENDS = {
    "serve": ["--check-config"],
    "standalone": ["--check-config"],
    "demo": ["surplus"],
    "console": ["surplus"],
}

# Enough of what is measured, unless a line says otherwise.
BEGINS = {"perf": ["-n", "10"]}

GOOD = (
    TOPIC, PARTED, f"{PARTED}-partition-0", SUBSCRIPTION, "public/default", "public", "standalone",
    f"persistent://public/default/{TOPIC}", "earliest", "latest", "0", "1", "10", "0:0", "idx:1",
    "-1", "-1m", "1h", "1M", "key=value", "true", "reader", "produce", "{}", "text",
)  # fmt: skip
# fmt: off
HOSTILE = (
    "", " ", "-", "--", "-1", "-5", "00", "1e309", "nan", "inf", "-inf", "0x10", "1.5", "99:7", "14:30",
    "99999999999999999999", "-9223372036854775809", "9223372036854775807", "2147483648", "null", "None",
    "[]", "{", '{"a": 1}', '"', "'", "\\", "%", "%q", "\\q", "$(x)", "`", "a b", "a\nb", "a\tb", "\x1b[31m",
    "é", "\N{COLLISION SYMBOL}", "\udcff", "\u017f", "\u202e", "x" * 300, "x" * 5000, "/", "//", ".", "..",
    "../..", "a/b", "a/b/c", "a/b/c/d", "persistent://", "persistent://a", "persistent://public/default/",
    "non-persistent://public/default/x", "ftp://x/y/z", "nothere", "no/where", "nothere-partition-7",
    "orders-partition-", "=", "a=", "=b", "a=b=c", ",", ",,", "*", "(", "[a-", "(?P<x", "idx:", "idx:-9",
    "id:", "id:x", "time:", "time:nope", "time:25:61", "@", "@5", "@99999999999999999999", "-1y",
    "999999999999999999y", "99999999999T", "hex:zz", "base64:!", "http://", "http://127.0.0.1:1",
    "pulsar://", "pulsar+ssl://127.0.0.1:1", "https://127.0.0.1:1", "nonsense", "2026-13-45",
    "9999-12-31T23:59:59-23:59", "0001-01-01T00:00:00+23:59", "file:///nothere", "data:;base64,!!",
)
# fmt: on


class Ended(NamedTuple):
    """How a line ended."""

    code: int
    said: str
    complaint: str


class Desk:
    """A broker, a folder with files to name, and a person's environment without Java."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._stack = ExitStack()
        self.files: tuple[str, ...] = ()

    def __enter__(self) -> Self:
        folder = self.folder
        contents = {
            "binary": bytes(range(256)),
            "empty": b"",
            "names": b"orders\nnothere\n",
            "document": b'{"type": "STRING", "schema": ""}',
        }
        for name, data in contents.items():
            (folder / name).write_bytes(data)
        _write_keys(folder)
        made = sorted(one.name for one in folder.iterdir())
        self.files = (*made, "missing", str(folder), f"file://{folder}/private.pem")
        # Loaded beforehand: a line is interrupted after a limited time, and an import that is interrupted
        # leaves half a module.
        for name in LOADED:
            importlib.import_module(name)
        self.broker = self._stack.enter_context(testing.broker(http=True))
        self.admin = self._stack.enter_context(Admin(self.broker.http_url))
        environ = {
            "MILEPOST_CONTEXTS": str(folder / "contexts.json"),
            "MILEPOST_ADMIN_URL": self.broker.http_url,
            "PATH": str(folder),
            "HOME": str(folder),
        }
        kept, here = dict(os.environ), os.getcwd()
        self._stack.callback(os.chdir, here)
        self._stack.callback(_restore, kept)
        for name in list(os.environ):
            if name.startswith(("MILEPOST_", "PULSAR_", "JAVA_")):
                del os.environ[name]
        os.environ.update(environ)
        os.chdir(folder)
        self.tidy()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stack.close()

    def tidy(self) -> None:
        """Make what the lines name, where one of them has deleted it."""
        admin = self.admin
        for make in (
            lambda: admin.create_tenant("public"),
            lambda: admin.create_namespace("public/default"),
            lambda: admin.create_topic(TOPIC),
            lambda: admin.create_partitioned_topic(PARTED, 2),
            lambda: admin.create_subscription(TOPIC, SUBSCRIPTION),
            lambda: admin.create_subscription(PARTED, SUBSCRIPTION),
        ):
            with suppress(AdminError):
                make()
        (self.folder / "contexts.json").unlink(missing_ok=True)

    def run(self, args: list[str], *, patience_s: float = PATIENCE_S) -> Ended:
        """Run a line as `milepost` would; one that waits is interrupted as by Ctrl-C."""
        out, complaint = io.BytesIO(), io.BytesIO()
        streams = [io.TextIOWrapper(one, "utf-8", "backslashreplace") for one in (out, complaint)]
        kept = sys.stdin
        before = signal.signal(signal.SIGALRM, _interrupt)
        signal.setitimer(signal.ITIMER_REAL, patience_s, patience_s)
        try:
            sys.stdin = io.TextIOWrapper(io.BytesIO(b"line\n"), "utf-8")
            with redirect_stdout(streams[0]), redirect_stderr(streams[1]):
                code = main.run(args)
        except KeyboardInterrupt:
            code = 130
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, before)
            sys.stdin = kept
        for stream in streams:
            stream.flush()
        return Ended(int(code), out.getvalue().decode(), complaint.getvalue().decode())


class Command(NamedTuple):
    words: tuple[str, ...]
    params: tuple[click.Parameter, ...]


def commands() -> list[Command]:
    """Every command there is; those of `admin` are others' under another exit code."""
    return list(_walk(main.milepost, click.Context(main.milepost, info_name="milepost"), ()))


def _walk(command: click.Command, ctx: click.Context, words: tuple[str, ...]) -> Iterator[Command]:
    if not isinstance(command, click.Group):
        yield Command(words, tuple(command.get_params(ctx)))
        return
    for name in command.list_commands(ctx):
        found = command.get_command(ctx, name)
        if found is not None and (*words, name) != ("admin",):
            yield from _walk(found, click.Context(found, ctx, info_name=name), (*words, name))


class Writer:
    """Writes lines by a seed: the same lines for the same seed."""

    def __init__(self, seed: int, files: tuple[str, ...]) -> None:
        self._dice = random.Random(seed)
        self._files = files
        self._commands = commands()

    def line(self) -> list[str]:
        dice = self._dice
        command = dice.choice(self._commands)
        line: list[str] = []
        likely = 2.5 / max(len(command.params), 1)
        for param in command.params:
            if isinstance(param, click.Argument):
                if param.required or dice.random() < 0.5:
                    line.append(self.value(param))
            elif (param.required and dice.random() < 0.95) or dice.random() < likely:
                line += self._option(param)
        if dice.random() < 0.05:
            line.insert(dice.randint(0, len(line)), dice.choice(HOSTILE))
        ends = ENDS.get(command.words[0], [])
        return [*command.words, *BEGINS.get(command.words[0], []), *line, *ends]

    def _option(self, param: click.Parameter) -> list[str]:
        name = self._dice.choice([*param.opts, *param.secondary_opts])
        if getattr(param, "is_flag", False):
            return [name]
        return [name, *(self.value(param) for _ in range(max(param.nargs, 1)))]

    def value(self, param: click.Parameter) -> str:
        """One that its type may like, or one that nothing likes."""
        dice = self._dice
        if isinstance(param.type, click.Choice) and dice.random() < 0.8:
            return str(dice.choice(list(param.type.choices)))
        near = {"topic": TOPIC, "subscription": SUBSCRIPTION, "namespace": "public/default"}
        if param.name in near and dice.random() < 0.5:
            return near[param.name]
        chance = dice.random()
        if chance < 0.4:
            return dice.choice(GOOD)
        return dice.choice(self._files if chance < 0.55 else HOSTILE)


def fault(line: list[str], ended: Ended) -> str | None:
    """What is wrong with how a line ended; None if nothing is."""
    told = [one for one in ended.complaint.splitlines() if one.startswith("milepost: ")]
    if ended.code == 1:
        return f"exit 1: {ended.complaint[-300:]}"
    if "Traceback" in ended.complaint or "a bug in" in ended.complaint:
        return f"a bug: {ended.complaint[-300:]}"
    if ended.code in (0, 9, 130, 141):
        return None if not told else f"succeeds, and complains: {told[0]}"
    if len(told) != 1 and "Usage:" not in ended.complaint:
        return f"exit {ended.code} with {len(told)} messages: {ended.complaint[-300:]!r}"
    if told and not ended.complaint.endswith(f"{told[-1]}\n"):
        return f"a message of several lines: {ended.complaint[-300:]!r}"
    return None


def _write_keys(folder: Path) -> None:
    from cryptography.hazmat.primitives import serialization as form
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    (folder / "private.pem").write_bytes(
        key.private_bytes(form.Encoding.PEM, form.PrivateFormat.PKCS8, form.NoEncryption())
    )
    (folder / "public.pem").write_bytes(
        key.public_key().public_bytes(form.Encoding.PEM, form.PublicFormat.SubjectPublicKeyInfo)
    )


def _interrupt(number: int, frame: FrameType | None) -> None:
    """Do what Ctrl-C does now: a loop that runs has put its own handler there."""
    handler = signal.getsignal(signal.SIGINT)
    if not callable(handler):  # between two loops it may be the C library's
        raise KeyboardInterrupt
    handler(signal.SIGINT, frame)


def _restore(environ: dict[str, str]) -> None:
    os.environ.clear()
    os.environ.update(environ)


def faults(desk: Desk, seed: int, count: int) -> Iterator[str]:
    """What is wrong with so many lines, each with the line that it happened to."""
    writer = Writer(seed, desk.files)
    for number in range(count):
        if number % TIDY_EVERY == 0:
            desk.tidy()
        line = writer.line()
        if found := fault(line, desk.run(line)):
            shown = [word if len(word) < 60 else f"{word[:20]}…{len(word)}" for word in line]
            yield f"{shown!a}: {found}"
