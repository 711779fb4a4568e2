"""The project's conventions as functions from a tree of files to problems.

Each rule reads text or syntax trees, never runs the code it judges. A rule is one generator with the
`@rule` decorator; it yields (path, line, what is wrong). `test_tidy.py` runs all of them on the real
tree, and on small bad trees to see that each can fire.

    @rule
    def no_tabs(tree):
        for path, number, line in tree.lines():
            if "\t" in line:
                yield path, number, "a tab"
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Callable, Iterator
from typing import NamedTuple

from tidy.tree import (
    GENERATED,
    PRODUCT,
    Tree,
    dotted,
    given_names,
    names_used,
    nodes,
    resolved,
    words,
)

# design.md, section 5. What is not listed is forbidden; errors and clock are free for everyone.
FREE = {"errors", "clock"}
PRODUCT_PACKAGES = {
    "positions": set(),
    "cursor": {"positions"},
    "wire": {"positions"},
    "storage": {"positions"},
    "schemas": {"positions"},
    "broker": {"positions", "cursor", "wire", "storage", "schemas"},
    "rest": {"positions", "broker", "schemas"},
    "rocketmq": {"positions", "broker", "wire"},
    "admin": {"positions"},
    "client": {"positions", "wire", "schemas", "admin"},
    "spark": {"positions", "wire", "schemas", "client", "admin"},
}
ANYTHING_BUT_TESTING = {*PRODUCT_PACKAGES, "cli"}
MAY_IMPORT = {
    **PRODUCT_PACKAGES,
    "errors": set(),
    "clock": set(),
    "cli": ANYTHING_BUT_TESTING,
    # milepost/__init__.py re-exports the public names
    "__init__": {*ANYTHING_BUT_TESTING, "aio", "exceptions", "schema"},
    "__main__": ANYTHING_BUT_TESTING,
    "aio": {"client"},  # the asyncio client under a short name
    "schema": {"schemas"},  # pulsar.schema by its own name
    "exceptions": set(),  # pulsar.exceptions by its own name
    "testing": {*ANYTHING_BUT_TESTING, "testing"},
}

PURE = (
    "positions/",
    "cursor/",
    "wire/",
    "schemas/",
    "broker/topic/topic.py",
    "broker/subscription/subscription.py",
    "broker/subscription/ack_journal.py",
    "broker/subscription/delayed.py",
    "broker/subscription/held_deliveries.py",
    "broker/dispatch/",
    "broker/messages/ids_to_indexes.py",
    "broker/messages/chunked.py",
    "broker/messages/compacted.py",
    "broker/messages/compactor.py",
    "broker/messages/entry_view.py",
    "broker/messages/send_verdict.py",
    "broker/metrics/",
    "broker/peer.py",
    "broker/topic/dedup.py",
    "broker/auth/operations.py",
    "broker/auth/roles.py",
    "broker/auth/keys.py",
    "broker/auth/tokens.py",
    "broker/auth/passwords.py",
    "broker/auth/certificates.py",
    "broker/auth/credentials.py",
    "broker/auth/grants.py",
    "broker/auth/authorizer.py",
    "client/messages/inbox.py",
    "client/messages/acks.py",
    "spark/offsets.py",
)
# fmt: off
IMPURE_MODULES = {
    "time", "asyncio", "socket", "os", "io", "pathlib", "threading", "selectors",
    "select", "ssl", "subprocess", "signal", "mmap", "multiprocessing", "concurrent", "queue",
    "shutil", "tempfile", "sqlite3", "uvloop", "milepost.clock",
}
# fmt: on

# Which of them a pure module may import all the same, and why.
HARMLESS = {
    ("schemas/avro.py", "io"): "BytesIO, which is memory: fastavro reads and writes files only",
    ("broker/settings/setting.py", "pathlib"): "Path as the value of a setting; no file is touched",
    ("client/messages/encryption.py", "os"): "os.urandom: keys and nonces must not be guessed",
}

# Who may open files beside the seam, and why.
OPENS_FILES = {
    "storage/files.py": "the seam itself",
    "storage/descriptors.py": "holds descriptors ready for the seam",
    "storage/catalog/sqlite_catalog.py": "SQLite opens its own database",
    "storage/bucket/folder.py": "a bucket that is a folder: its objects are no files of a data directory",
    "storage/bucket/start.py": "makes the local directory, before there is a seam to go through",
    "storage/shards.py": "makes the directory of shards, before there is a seam to go through",
    "storage/cluster/owners.py": "a hint between processes of one machine, not durable",
    "storage/cluster/load.py": "memory that processes share: there is no file",
    "storage/cluster/right.py": "memory that processes share: there is no file",
    "storage/lock.py": "makes the data directory, before there is a seam, and its lock is the open file",
    "broker/limits/memory.py": "reads how much memory the container may use",
    "rest/console/files.py": "reads the console's own files, which are part of the package",
    "broker/auth/files.py": "reads the operator's keys, passwords and certificates",
    "client/connection/endpoint.py": "reads the token that a user keeps in a file",
    "client/messages/key_reader.py": "reads the keys that a user's messages are encrypted with",
    "cli/": "reads and writes the user's own files",
    "spark/launcher.py": "a script that Spark runs, in a directory that is made for it",
    "spark/pipelines/": "lakes, histories and reports are the user's own directories, and no broker's",
}
# fmt: off
OPENING_CALLS = {
    "open", "io.open", "os.open", "os.fdopen", "os.rename", "os.replace", "os.unlink", "os.remove",
    "os.mkdir", "os.makedirs", "os.rmdir", "os.truncate", "os.link", "os.symlink",
    "sqlite3.connect", "mmap.mmap",
}
# fmt: on
OPENING_METHODS = {"read_text", "read_bytes", "write_text", "write_bytes", "touch", "mkdir"}
OPENING_MODULES = {"shutil", "tempfile"}

TIME_CALLS = {
    *(f"time.{name}" for name in ("time", "monotonic", "perf_counter", "process_time")),
    *(f"time.{name}_ns" for name in ("time", "monotonic", "perf_counter", "process_time")),
    *(f"datetime.datetime.{name}" for name in ("now", "utcnow", "today")),
    "datetime.date.today",
}
TIME_TELLERS = ("clock.py", "testing/", "cli/")

LINES_MAX = 800
# Tests of one module stay together: they are read one at a time.
TEST_LINES_MAX = 1000

# Words of the glossary's "never say" column, as parts of names that others see. Words with an
# innocent meaning (interval, queue, record, push) are left to the reviewer.
# fmt: off
BANNED_WORDS = {
    "segment", "nack", "watermark", "wal", "rewind", "purge", "ordinal", "lag", "credit", "channel",
    "offset",
}
# fmt: on
BANNED_NAMES = {"commit_log", "delete_set", "acked_bit"}
# An offset is a place in bytes here; in spark it is Spark's word for an end index, and in the protocol of
# mqadmin that of an index.
OFFSET_HOMES = ("storage/", "wire/", "spark/", "testing/", "rocketmq/remoting/")

UNFINISHED = re.compile(r"\b(TO" r"DO|FIX" r"ME|X" r"XX)\b")
MACHINE_PATH = re.compile(r"(?<![\w.:/-])/(?:work|tmp|root)(?![\w.-])")
REGISTRY_HOST = re.compile(
    r"\b(?:pypi\.(?:org|python)|pythonhosted\.|registry\.npm|npmjs\.|maven\.(?:org|apache)|crates\.io"
    r"|proxy\.golang|docker\.io|ghcr\.io|quay\.io)"
    r"|https?://[^\s/'\"]*(?:artifactory|nexus|mirror|registry|proxy)"
    r"|-index-url[= ]+https?:"
)
SLEEP_WAIVER = re.compile(r"# sleep: \w+")


class Problem(NamedTuple):
    path: str
    line: int
    rule: str
    text: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: [{self.rule}] {self.text}"


Found = Iterator[tuple[str, int, str]]
RULES: dict[str, Callable[[Tree], Found]] = {}


def rule(check: Callable[[Tree], Found]) -> Callable[[Tree], Found]:
    RULES[check.__name__] = check
    return check


def problems(tree: Tree, name: str) -> list[Problem]:
    return [Problem(path, line, name, text) for path, line, text in RULES[name](tree)]


@rule
def imports(tree: Tree) -> Found:
    for path, inner, _ in tree.product():
        here = inner.partition("/")[0].removesuffix(".py")
        if here not in MAY_IMPORT:
            yield path, 1, f"{here} has no row in the table of who may import whom"
            continue
        allowed = {here, *FREE, *MAY_IMPORT[here]} if here not in FREE else {here}
        for found in tree.imports[path]:
            if found.package in MAY_IMPORT and found.package not in allowed:
                yield path, found.line, f"{here} may not import {found.package}"
            if here == "positions" and not _is_stdlib_or_own(found.top):
                yield path, found.line, f"positions is stdlib only, not {found.top}"
            if found.top == "pyspark" and here != "spark":
                yield path, found.line, "only spark imports pyspark"


@rule
def purity(tree: Tree) -> Found:
    for path, inner, module in tree.product():
        if not inner.startswith(PURE):
            continue
        for found in tree.imports[path]:
            impure = {found.top, ".".join(found.module.split(".")[:2])} & IMPURE_MODULES
            impure = {module for module in impure if (inner, module) not in HARMLESS}
            if impure:
                yield path, found.line, f"pure module imports {impure.pop()}"
        for node in nodes(module, ast.AsyncFunctionDef, ast.AsyncFor, ast.AsyncWith, ast.Await):
            yield path, node.lineno, "pure module is async"
        for call in nodes(module, ast.Call):
            if dotted(call.func) == "open":
                yield path, call.lineno, "pure module opens a file"


@rule
def time_is_asked_by_the_clock(tree: Tree) -> Found:
    for path, inner, module in tree.product():
        if inner.startswith(TIME_TELLERS):
            continue
        for line, name in names_used(module):
            asked = name if name in TIME_CALLS else None
            if re.search(r"loop(\(\))?\.time$", name):
                asked = name
            if asked:
                yield path, line, f"{asked}: take a Clock"


@rule
def files_are_opened_by_the_seam(tree: Tree) -> Found:
    for path, inner, module in tree.product():
        if inner.startswith((*OPENS_FILES, "testing/")):
            continue
        for node in nodes(module, ast.Call):
            name = resolved(module, dotted(node.func))
            top, _, method = name.rpartition(".")
            if (
                name in OPENING_CALLS
                or method in OPENING_METHODS
                or top.partition(".")[0] in OPENING_MODULES
                or re.search(r"\bPath\(\)\.open$", name)
            ):
                yield path, node.lineno, f"{name}: go through storage/files.py"


@rule
def files_are_short(tree: Tree) -> Found:
    for path, text in tree.texts.items():
        count = len(text.splitlines())
        limit = TEST_LINES_MAX if path.startswith("tests/") else LINES_MAX
        if path.endswith(".py") and path not in GENERATED and count > limit:
            yield path, limit + 1, f"{count} lines, at most {limit}: find the second noun"


@rule
def words_of_the_glossary(tree: Tree) -> Found:
    for path, inner, module in tree.product():
        banned = BANNED_WORDS - ({"offset"} if inner.startswith(OFFSET_HOMES) else set())
        for line, identifier in given_names(module):
            singular = [word.removesuffix("s") for word in words(identifier)]
            if banned & set(singular) or "_".join(singular) in BANNED_NAMES:
                yield path, line, f"{identifier}: the glossary has another word"


@rule
def modules_say_what_they_own(tree: Tree) -> Found:
    for path, _, module in tree.product():
        if module.body and not ast.get_docstring(module):
            yield path, 1, "no module docstring"


@rule
def no_dead_modules(tree: Tree) -> Found:
    """A module lives by an entry point, or by an import from elsewhere than its own unit test.

    The test doubles ship: their users are elsewhere.
    """
    launchers = "\n".join(
        text for path, text in tree.texts.items() if path in ("pyproject.toml", "Makefile")
    )
    users: dict[str, set[str]] = {}  # of a module, and of all that it is in
    for user, found_all in tree.imports.items():
        for found in found_all:
            parts = found.module.split(".")
            for count in range(1, len(parts) + 1) if parts[0] == "milepost" else ():
                users.setdefault(".".join(parts[:count]), set()).add(user)
    for path, inner, _ in tree.product():
        name = "milepost." + inner.removesuffix(".py").replace("/", ".")
        if name.endswith(("__init__", "__main__")) or inner.startswith("testing/"):
            continue
        imported = users.get(name, set()) - {path, _unit_test_of(inner)}
        if not imported and not re.search(rf"\b{re.escape(name)}\b", launchers):
            yield path, 1, "never imported, and no entry point names it"


@rule
def no_print(tree: Tree) -> Found:
    for path, inner, module in tree.product():
        if inner.startswith(("cli/", "testing/")):
            continue
        for node in nodes(module, ast.Call):
            if dotted(node.func) == "print":
                yield path, node.lineno, "print: log it, or leave it to the CLI"


@rule
def cancellations_are_heard(tree: Tree) -> Found:
    """`asyncio.wait_for` of Python 3.11 forgets a cancellation that comes with its answer, and the task goes
    on for ever."""
    for path, _, module in tree.product():
        for node in nodes(module, ast.Call):
            if resolved(module, dotted(node.func)) == "asyncio.wait_for":
                yield path, node.lineno, "asyncio.wait_for: use asyncio.timeout"


@rule
def no_mocks(tree: Tree) -> Found:
    for path, found_all in tree.imports.items():
        for found in found_all:
            if re.match(r"(unittest\.)?mock\b|pytest_mock\b", found.module):
                yield path, found.line, "a mock of our own code: use milepost.testing"


@rule
def no_sleep_as_synchronisation(tree: Tree) -> Found:
    for path, module in tree.python("tests/"):
        lines = tree.texts[path].splitlines()
        for node in nodes(module, ast.Call):
            name = resolved(module, dotted(node.func))
            yields = name == "asyncio.sleep" and [ast.unparse(arg) for arg in node.args] == ["0"]
            if name in ("time.sleep", "asyncio.sleep") and not yields:
                statement = lines[node.lineno - 1 : node.end_lineno]
                if not any(SLEEP_WAIVER.search(line) for line in statement):
                    yield path, node.lineno, f"{name}: wait for an event, or add '# sleep: why'"


@rule
def nothing_unfinished(tree: Tree) -> Found:
    for path, number, found in tree.found(UNFINISHED):
        yield path, number, f"{found[0]}: do it, or open an issue"


@rule
def no_machine_paths(tree: Tree) -> Found:
    for path, number, found in tree.found(MACHINE_PATH):
        yield path, number, f"{found[0]}: a path of somebody's machine"


@rule
def no_registry_hosts(tree: Tree) -> Found:
    for path, number, found in tree.found(REGISTRY_HOST):
        yield path, number, f"{found[0]}: the host of a package registry"


@rule
def unit_tests_mirror_sources(tree: Tree) -> Found:
    """tests/unit/a/test_b.py tests a/b.py; so may test_b_something.py when one file is not enough."""
    for path in tree.texts:
        folder, _, name = path.rpartition("/")
        if not path.startswith("tests/unit/") or not name.endswith(".py"):
            continue
        if name in ("__init__.py", "conftest.py"):
            continue
        inner = f"{folder}/".removeprefix("tests/unit/")
        words = name.removesuffix(".py").removeprefix("test_").split("_")
        stems = ["_".join(words[: count + 1]) for count in range(len(words))]
        stems += ["__init__"] if words == ["init"] else []
        if not name.startswith("test_") or not any(
            f"{PRODUCT}{inner}{stem}.py" in tree.texts for stem in stems
        ):
            yield path, 1, f"no {PRODUCT}{inner}{stems[-1]}.py for it to test"


def _is_stdlib_or_own(top: str) -> bool:
    return top in sys.stdlib_module_names or top == "milepost"


def _unit_test_of(inner: str) -> str:
    folder, _, name = inner.rpartition("/")
    return f"tests/unit/{folder}/test_{name}".replace("//", "/")
