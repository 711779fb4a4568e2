"""No line that a person may type ends as a bug, and what is missing is said to be missing."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from e2e.words import SUBSCRIPTION, TOPIC, Command, Desk, commands, fault, faults
from milepost.cli.exits import Exit

# `make words` says how many more.
LINES = int(os.environ.get("MILEPOST_WORDS", "400"))
SEED = int(os.environ.get("MILEPOST_WORDS_SEED", "14"))


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Desk]:
    with Desk(tmp_path_factory.mktemp("desk")) as made:
        yield made


@pytest.mark.timeout(7200)
# A line that waits is interrupted by a signal, which may come inside a callback of the interpreter, or
# between a socket and what closes it. A process would end there; this one goes on.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_random_lines_end_as_their_values_deserve(tmp_path: Path) -> None:
    """Never exit 1, and each refusal is one line."""
    # The lines make files and topics, which the other tests must not find.
    with Desk(tmp_path) as desk:
        found = list(faults(desk, SEED, LINES))
    assert not found, "\n".join([f"{len(found)} of {LINES} lines, seed {SEED}:", *found[:50]])


@pytest.mark.parametrize(
    ("line", "code", "words"),
    [
        ("perf produce orders -s -5", Exit.USAGE, "expected a size from 0"),
        ("tokens create -s me -sk private.pem", Exit.USAGE, "one of a key pair"),
        ("tokens validate x -sk public.pem", Exit.USAGE, "one of a key pair"),
        ("serve --check-config --set token_secret_key=private.pem", Exit.USAGE, "one of a key pair"),
        ("topics delete binary --from-file", Exit.USAGE, "not UTF-8 at byte 128"),
        ("topics delete missing --from-file", Exit.NOT_FOUND, "there is no such file"),
        ("produce orders -f missing", Exit.NOT_FOUND, "there is no such file"),
        ("schemas upload orders -f missing", Exit.NOT_FOUND, "there is no such file"),
        ("tokens show -f missing", Exit.NOT_FOUND, "there is no such file"),
        ("tokens create -s me -pk missing", Exit.NOT_FOUND, "there is no such file"),
        ("serve --check-config --config missing", Exit.NOT_FOUND, "there is no such file"),
        ("serve --check-config --conf missing", Exit.NOT_FOUND, "there is no such file"),
        ("topics list public/default --token-file missing", Exit.NOT_FOUND, "no such file"),
        ("topics list public/default --admin-url https://127.0.0.1:1 --tls-trust-cert-path missing",
         Exit.NOT_FOUND, "no such file"),
        ("namespaces set-clusters public/default -c nope", Exit.NOT_FOUND, "does not exist"),
        ("namespaces list public/default", Exit.USAGE, "public/default"),
        ("context add x --admin-url nonsense", Exit.USAGE, "nonsense"),
        ("context add x --url http://h:1", Exit.USAGE, "http://h:1"),
        ("serve --check-config --port 0 --http-port -1", Exit.USAGE, "one of the two ports"),
        ("topics offload-status orders", Exit.USAGE, "no store to offload to"),
        ("topics stats orders --admin-url nonsense", Exit.USAGE, "nonsense"),
        ("seek orders billing --to 14:30", Exit.USAGE, "id:LEDGER:ENTRY, index:NUMBER or time:14:30"),
    ],
)  # fmt: skip
def test_a_mistake_is_told_as_what_it_is(desk: Desk, line: str, code: Exit, words: str) -> None:
    desk.tidy()
    ended = desk.run(line.split(), patience_s=60)
    assert (ended.code, ended.complaint.count("\n")) == (code, 1), ended
    assert words in ended.complaint
    assert "administrator" not in ended.complaint


# -- what is missing ---------------------------------------------------------------------------------

OBJECTS = ("topic", "topics", "tenant", "subscription", "group", "lake", "history", "name")
NAMESPACES = ("namespace", "namespaces")

# Commands that make what they name, as pulsar-admin's do.
MAKES = {
    "topics create", "topics create-partitioned-topic", "topics create-subscription", "namespaces create",
    "tenants create", "subscriptions create", "schemas upload", "resourcegroups create", "context add",
    "non-persistent create", "non-persistent create-partitioned-topic", "produce", "perf produce",
}  # fmt: skip
# Where a name would lie, whether a schema could be registered, which namespaces bear a label, and that
# transactions have no ledgers, is known without the object. A setting is no object: none can be missing.
NEEDS_NOTHING = {
    "topics lookup", "topics bundle-range", "non-persistent lookup", "schemas compatibility", "explain",
    "config show", "namespaces get-anti-affinity-namespaces",
    "transactions buffer-snapshot-internal-stats", "transactions pending-ack-internal-stats",
    "brokers update-dynamic-config", "brokers delete-dynamic-config",
}  # fmt: skip
# What some commands need beside what click requires, by the last words of their names.
MORE = {
    "set-replicated-subscription-status": "--enable",
    "set-delayed-delivery": "--enable",
    "set-deduplication": "--enable",
    "set-auto-topic-creation": "--enable",
    "set-is-allow-auto-update-schema": "--enable",
    "set-encryption-required": "--enable",
    "set-inactive-topic-policies": "--enable-delete-while-inactive",
    "set-backlog-quota": "--limit 1M",
    "set-schema-autoupdate-strategy": "--disabled",
    "update-subscription-properties": "--clear",
    "expire-messages": "--expireTime 1h",
    "reset-cursor": "--time 1h",
    "split-bundle": "--bundle 0x00000000_0xffffffff",
    "namespaces clear-backlog": "--force",
    "seek": "--to earliest",
}
VALUES = {
    "time": "1h", "size": "1M", "file": "document", "key=value": "k=v", "names": "standalone",
    "when": "2026-01-01", "message_id": "0:0", "properties": "k=v", "bundle": "0x00000000_0xffffffff",
    "actions": "produce", "role": "me", "cluster": "standalone",
}  # fmt: skip


def _more(command: Command) -> str:
    return MORE.get(" ".join(command.words), MORE.get(command.words[-1], ""))


def _value(param: click.Parameter, missing: str) -> str:
    if param.name in OBJECTS:
        return missing
    if param.name in NAMESPACES:
        return f"public/{missing}"
    if isinstance(param.type, click.Choice):
        return str(param.type.choices[0])
    kind = str(getattr(param.type, "name", ""))
    return VALUES.get(str(param.name), VALUES.get(kind, "1"))


def line_about_nothing(command: Command, missing: str) -> list[str]:
    """The shortest line of a command, with every object that it names missing."""
    line: list[str] = []
    named = False
    for param in command.params:
        is_object = param.name in (*OBJECTS, *NAMESPACES)
        if is_object and isinstance(param, click.Option) and not param.required:
            if named or command.words[0] == "context":
                continue
        elif not param.required and not is_object:
            continue
        named = named or is_object
        value = _value(param, missing)
        line += [value] if isinstance(param, click.Argument) else [param.opts[-1], value]
    return [*command.words, *line, *_more(command).split()]


def names_objects(command: Command) -> bool:
    name = " ".join(command.words)
    known = any(param.name in (*OBJECTS, *NAMESPACES) for param in command.params)
    return known and name not in MAKES and name not in NEEDS_NOTHING


def test_what_is_missing_is_exit_5_for_every_command(desk: Desk) -> None:
    wrong = []
    asked = [one for one in commands() if names_objects(one)]
    for number, command in enumerate(asked):
        line = line_about_nothing(command, f"nothere{number}")
        ended = desk.run(line, patience_s=60)
        if ended.code != Exit.NOT_FOUND or fault(line, ended):
            wrong.append(f"{' '.join(line)}: {ended.code} {ended.complaint or ended.said}"[:300])
    assert len(asked) > 350
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize(
    "line",
    [
        "progress -n public/unmade", "progress -n unmade/x", "progress -t unmade", "progress -g unmade",
        "perf consume unmade", "consume unmade --exit", "consume orders --from 99 --exit",
        "peek orders --from 99", f"peek {TOPIC} -s unmade", f"seek {TOPIC} unmade --to earliest",
        f"seek {TOPIC} {SUBSCRIPTION} --to 99:7", f"seek {TOPIC} {SUBSCRIPTION} --to 99 --dry-run",
        f"seek {TOPIC} {SUBSCRIPTION} --by -99 --dry-run", f"seek {TOPIC} {SUBSCRIPTION} --to 2020-01-01",
        f"topics reset-cursor {TOPIC} -s {SUBSCRIPTION} -m 99:7", "context use unmade",
        f"topics create-subscription {TOPIC} -s new -m 99:7", "topics list public/default --context unmade",
    ],
)  # fmt: skip
def test_a_part_that_is_missing_is_exit_5(desk: Desk, line: str) -> None:
    """By names that no random line has: those before may have made what they name."""
    desk.tidy()
    ended = desk.run(line.split(), patience_s=60)
    assert (ended.code, ended.said) == (Exit.NOT_FOUND, ""), ended
    assert "--dry-run" not in ended.complaint
    (position,) = (one["was"] for one in _moves(desk))
    assert position == 0, "a refusal has moved something"


def _moves(desk: Desk) -> list[dict[str, int]]:
    found = desk.admin.reset_subscription(TOPIC, SUBSCRIPTION, by=0, dry_run=True)
    return [{"was": one.was} for one in found.moves]
