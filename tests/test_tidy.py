"""A convention is a test or it is not a convention.

Every rule of `tidy/rules.py` runs on the project's tree; a failure names file, line and rule. Below,
every rule runs on small trees that break it and on ones that do not: a rule that cannot fire is no
rule either.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from tidy import house
from tidy.rules import HARMLESS, MAY_IMPORT, OPENS_FILES, PRODUCT_PACKAGES, RULES, problems
from tidy.tree import PRODUCT, Tree

ROOT = Path(__file__).resolve().parent.parent


@pytest.fixture(scope="module")
def project() -> Tree:
    return Tree.load(ROOT)


@pytest.mark.parametrize("name", RULES)
def test_the_tree_is_tidy(project: Tree, name: str) -> None:
    found = problems(project, name)
    assert not found, "\n" + "\n".join(map(str, found))


def test_the_rules_see_the_tree(project: Tree) -> None:
    seen = {inner for _, inner, _ in project.product()}
    assert {"errors.py", "storage/files.py", "testing/files.py"} <= seen
    assert "Makefile" in project.texts


def test_nobody_is_allowed_to_open_files_for_nothing(project: Tree) -> None:
    """An entry of the allow-list whose file is there must need it."""
    for inner in OPENS_FILES:
        texts = {path: text for path, text in project.texts.items() if path == PRODUCT + inner}
        renamed = {path.replace(".py", "_elsewhere.py"): text for path, text in texts.items()}
        if renamed:
            assert problems(Tree(renamed), "files_are_opened_by_the_seam"), f"{inner} opens nothing"


def test_no_pure_module_is_excused_for_nothing(project: Tree) -> None:
    """An entry of the table of harmless imports must be of an import that is there."""
    for inner, module in HARMLESS:
        found = project.imports.get(PRODUCT + inner, [])
        assert module in {one.top for one in found}, f"{inner} does not import {module}"


# Rule → (path, text, line of the one problem). Paths are inside src/milepost unless they start
# with a folder of the project.
BAD: dict[str, list[tuple[str, str, int]]] = {
    "imports": [
        ("wire/x.py", "import struct\nfrom milepost.storage import files\n", 2),
        ("cursor/x.py", "from milepost import wire\n", 1),
        ("storage/x.py", "import milepost.cursor.cursor\n", 1),
        ("storage/x.py", "from ..broker import topic\n", 1),
        ("positions/x.py", "import google_crc32c\n", 1),
        ("positions/x.py", "def f():\n    from milepost.wire.frames import crc\n", 2),
        ("broker/handlers/x.py", "from milepost.client import consumer\n", 1),
        ("broker/x.py", "import milepost.testing\n", 1),
        ("client/x.py", "import milepost.broker\n", 1),
        ("client/x.py", "import milepost.storage.ledgers.log\n", 1),
        ("rest/x.py", "import milepost.storage\n", 1),
        ("spark/x.py", "import milepost.broker\n", 1),
        ("cli/x.py", "COMMAND = 'milepost.testing.files:MemoryFiles'\n", 1),
        ("__init__.py", "from milepost.testing import ManualClock\n", 1),
        ("errors.py", "from milepost import clock\n", 1),
        ("clock.py", "from milepost.errors import MilepostError\n", 1),
        ("broker/x.py", "import pyspark.sql\n", 1),
        ("extras/x.py", "", 1),
        ("extras.py", "", 1),
    ],
    "purity": [
        *(("positions/x.py", f"import {module}\n", 1) for module in ("time", "os", "io", "socket")),
        ("cursor/x.py", "import asyncio\n", 1),
        ("wire/x.py", "from pathlib import Path\n", 1),
        ("wire/x.py", "from milepost.clock import Clock\n", 1),
        ("wire/x.py", "import os.path\n", 1),
        ("broker/topic/topic.py", "import threading\n", 1),
        ("broker/dispatch/dispatchers.py", "\nasync def plan(): ...\n", 2),
        ("broker/topic/dedup.py", "import selectors\n", 1),
        ("broker/subscription/subscription.py", "f = open('x')\n", 1),
        ("client/messages/inbox.py", "import socket\n", 1),
        ("client/messages/acks.py", "import time\n", 1),
        ("spark/offsets.py", "import io\n", 1),
    ],
    "time_is_asked_by_the_clock": [
        ("broker/x.py", "import time\nnow = time.time()\n", 2),
        ("broker/x.py", "import time as t\nnow = t.monotonic()\n", 2),
        ("broker/x.py", "from time import time_ns as now\nx = now()\n", 2),
        ("broker/x.py", "import time\nask = time.perf_counter\n", 2),
        ("broker/x.py", "import datetime\nnow = datetime.datetime.now()\n", 2),
        ("broker/x.py", "from datetime import datetime\nnow = datetime.now()\n", 2),
        ("broker/x.py", "import asyncio\nnow = asyncio.get_running_loop().time()\n", 2),
    ],
    "files_are_opened_by_the_seam": [
        ("storage/x.py", "f = open('x')\n", 1),
        ("storage/x.py", "import os\nf = os.open('x', 0)\n", 2),
        ("broker/x.py", "from os import rename as move\nmove('x', 'y')\n", 2),
        ("broker/x.py", "import sqlite3\ndb = sqlite3.connect('x')\n", 2),
        ("broker/x.py", "from pathlib import Path\nt = Path('x').read_text()\n", 2),
        ("broker/x.py", "from pathlib import Path\nt = Path('x').open()\n", 2),
        ("broker/x.py", "import shutil\nshutil.rmtree('x')\n", 2),
        ("client/x.py", "import tempfile\nf = tempfile.TemporaryFile()\n", 2),
    ],
    "files_are_short": [
        ("storage/x.py", "x = 1\n" * 801, 801),
        ("tests/unit/test_x.py", "x = 1\n" * 1001, 1001),
    ],
    "words_of_the_glossary": [
        ("storage/x.py", "class LogSegment: ...\n", 1),
        ("broker/x.py", "def nack(ids): ...\n", 1),
        ("broker/x.py", "def f(low_watermark): ...\n", 1),
        ("broker/x.py", "x.offset = 1\n", 1),
        ("cursor/x.py", "offsets: list[int] = []\n", 1),
        ("storage/x.py", "WAL = 1\n", 1),
        ("storage/x.py", "class WALFile: ...\n", 1),
        ("storage/x.py", "commit_log = 1\n", 1),
        ("broker/x.py", "for lag in (): ...\n", 1),
        ("broker/x.py", "async def rewind(): ...\n", 1),
        ("client/x.py", "def seek(self, offset: int): ...\n", 1),
        ("client/x.py", "class Place:\n    end_offset: int\n", 2),
    ],
    "modules_say_what_they_own": [
        ("storage/x.py", "import os\n", 1),
        ("storage/__init__.py", "from x import y\n", 1),
    ],
    "no_dead_modules": [
        ("storage/x.py", "x = 1\n", 1),
        ("cli/x.py", "x = 1\n", 1),
    ],
    "no_print": [("broker/x.py", "x = 1\nprint(x)\n", 2)],
    "cancellations_are_heard": [
        ("broker/x.py", "import asyncio\nasync def f(): await asyncio.wait_for(g(), 1)\n", 2),
        ("broker/x.py", "from asyncio import wait_for\nasync def f(): await wait_for(g(), 1)\n", 2),
    ],
    "no_mocks": [
        ("tests/unit/test_x.py", "from unittest import mock\n", 1),
        ("tests/unit/test_x.py", "from unittest.mock import patch\n", 1),
        ("tests/unit/test_x.py", "import unittest.mock as m\n", 1),
    ],
    "no_sleep_as_synchronisation": [
        ("tests/compat/test_x.py", "import time\ntime.sleep(1)\n", 2),
        ("tests/compat/test_x.py", "from time import sleep\nsleep(0)\n", 2),
        ("tests/compat/test_x.py", "import asyncio\nasyncio.sleep(0.1)\n", 2),
        ("tests/compat/test_x.py", "import time\ntime.sleep(1)  # sleep:\n", 2),
    ],
    "nothing_unfinished": [
        ("broker/x.py", "x = 1  # " + "TO" + "DO: y\n", 1),
        ("docs/x.md", "one\n" + "FIX" + "ME two\n", 2),
    ],
    "no_machine_paths": [
        ("docs/x.md", "look into " + "/" + "work/main\n", 1),
        ("broker/x.py", "x = '" + "/" + "tmp'\n", 1),
        ("Makefile", "x:\n\tls " + "/" + "root/x\n", 2),
    ],
    "no_registry_hosts": [
        ("requirements/x.lock", "--index-url" + " https://example.com/simple\n", 1),
        ("docs/x.md", "see pypi" + ".org\n", 1),
        ("Makefile", "x:\n\tcurl https://" + "nexus.example.com/y\n", 2),
    ],
    "broker_rooms_are_layers": [
        ("broker/limits/x.py", "import re\nfrom milepost.broker.topic.topic import Topic\n", 2),
        ("broker/peer.py", "import milepost.broker.connection.session\n", 1),
        ("broker/odd.py", "", 1),
    ],
    "purity_is_transitive": [
        ("wire/x.py", "from milepost.storage.files import Files\n", 1),
        ("wire/x.py", "import re\nfrom milepost.storage.opener import open_it\n", 2),
    ],
    "functions_are_short": [
        ("broker/x.py", "x = 1\ndef f():\n" + "    x = 1\n" * 70, 2),
    ],
    "rooms_list_their_files": [
        (
            "storage/__init__.py",
            '"""Storage.\n\nfiles   the seam\nopener  opens\nghost   gone\n"""\n',
            1,
        ),
        ("storage/__init__.py", '"""Storage.\n\nfiles  the seam\n"""\n', 1),
    ],
    "named_files_exist": [
        ("broker/x.py", "x = 1\n# see storage/gone" + ".py\n", 2),
        ("docs/x.md", "`gone" + ".py`\n", 1),
    ],
    "broker_programs_against_the_storage_interface": [
        ("broker/x.py", "from milepost.storage.engine import StorageEngine\n", 1),
        ("rest/x.py", "if TYPE_CHECKING:\n    from milepost.storage.store import Store\n", 2),
    ],
    "hooks_come_through_constructors": [
        (
            "broker/x.py",
            "class X:\n    def __init__(self):\n        self.wake: Callable[[], None] = lambda: None\n",
            3,
        ),
    ],
    "subjects_have_names": [
        ("broker/x.py", "x = 1  # nobody " + "knows\n", 1),
        ("docs/x.md", "one\nfor who" + "ever comes\n", 2),
    ],
    "unit_tests_mirror_sources": [
        ("tests/unit/storage/test_x.py", "", 1),
        ("tests/unit/storage/helpers.py", "", 1),
        ("tests/unit/test_storage.py", "", 1),
    ],
}

# Rule → (path, text) without a problem.
GOOD: dict[str, list[tuple[str, str]]] = {
    "imports": [
        ("broker/x.py", "from milepost import clock, cursor, errors, positions, storage, wire\n"),
        ("client/x.py", "from milepost import __version__, positions, wire\n"),
        ("cli/x.py", "from milepost import admin, broker, client, spark, storage\n"),
        ("testing/x.py", "from milepost import broker, cli, testing\n"),
        ("spark/x.py", "import pyspark\nfrom milepost.client import reader\n"),
        ("storage/x.py", "from . import files\nfrom .files import Files\nimport google_crc32c\n"),
        ("rest/x.py", "from milepost.broker.broker import Broker\nimport fastapi\n"),
    ],
    "purity": [
        ("wire/x.py", "import struct\nfrom milepost.errors import ProtocolError\n"),
        ("broker/connection/server.py", "import asyncio\nasync def serve(): ...\n"),
        ("wire/x.py", "from iostuff import y\n"),
    ],
    "time_is_asked_by_the_clock": [
        ("clock.py", "import time\nnow = time.time()\n"),
        ("cli/x.py", "import time\nnow = time.time()\n"),
        ("broker/x.py", "def f(entry): return entry.time\n"),
        ("broker/x.py", "def f(self): return self.clock.monotonic()\n"),
    ],
    "files_are_opened_by_the_seam": [
        ("storage/files.py", "import os\nf = os.open('x', 0)\n"),
        ("storage/x.py", "def f(files): files.rename('a', 'b')\n"),
        ("storage/x.py", "def f(ledger): return ledger.open('a')\n"),
        ("cli/x.py", "f = open('x')\n"),
    ],
    "files_are_short": [
        ("storage/x.py", "x = 1\n" * 500),
        ("wire/pulsar_pb2.py", "x = 1\n" * 900),
        ("docs/x.md", "x\n" * 900),
    ],
    "words_of_the_glossary": [
        ("storage/x.py", "offset = 1\n"),
        ("spark/x.py", "def latest_offset(): ...\n"),
        ("broker/x.py", "def f(x): return x.offset, wallet, x.nack()\n"),
        ("broker/x.py", "flag = walk = lagoon = 1\n"),
        ("positions/x.py", "def read(data: bytes, offset: int): ...\n"),
        ("positions/x.py", "def f():\n    offset = segment = 1\n"),
    ],
    "modules_say_what_they_own": [("storage/x.py", '"""Owns x."""\n'), ("wire/__init__.py", "")],
    "no_dead_modules": [
        ("cli/main.py", "x = 1\n"),
        ("wire/__init__.py", "x = 1\n"),
        ("testing/x.py", "x = 1\n"),
    ],
    "no_print": [
        ("cli/x.py", "print(1)\n"),
        ("testing/x.py", "print(1)\n"),
        ("broker/x.py", "x.print(1)\n"),
    ],
    "cancellations_are_heard": [
        ("broker/x.py", "x.wait_for(1)\n"),
        ("tests/unit/test_x.py", "import asyncio\nasync def f(): await asyncio.wait_for(g(), 1)\n"),
    ],
    "no_mocks": [("tests/unit/test_x.py", "import unittest\nimport mockingbird\n")],
    "no_sleep_as_synchronisation": [
        ("tests/compat/test_x.py", "import asyncio\nasyncio.sleep(0)\n"),
        (
            "tests/compat/test_x.py",
            "import time\ntime.sleep(1)  # sleep: the official client polls\n",
        ),
        ("broker/x.py", "import asyncio\nasyncio.sleep(1)\n"),
    ],
    "nothing_unfinished": [("docs/x.md", "todos, TODOS and mastodons\n")],
    "no_machine_paths": [
        ("docs/x.md", "https://example.com/work/x and ./tmp/x and data/tmp\n"),
        ("docs/x.md", "/worker /tmpl\n"),
    ],
    "no_registry_hosts": [("docs/x.md", "pip install milepost; see https://www.python.org\n")],
    "broker_rooms_are_layers": [
        ("broker/topic/x.py", "from milepost.broker.limits.memory import MemoryLimit\n"),
        (
            "broker/limits/x.py",
            "if TYPE_CHECKING:\n    from milepost.broker.topic.topic import Topic\n",
        ),
        ("client/x.py", "import re\n"),
    ],
    "purity_is_transitive": [
        ("wire/x.py", "from milepost.positions.ids import Position\n"),
        ("wire/x.py", "if TYPE_CHECKING:\n    from milepost.storage.files import Files\n"),
        ("broker/connection/server.py", "from milepost.storage.files import Files\n"),
    ],
    "functions_are_short": [("broker/x.py", "def f():\n" + "    x = 1\n" * 69)],
    "rooms_list_their_files": [
        ("storage/__init__.py", '"""Storage.\n\nfiles   the seam\nopener  opens\n"""\n'),
    ],
    "named_files_exist": [
        ("broker/x.py", "# see storage/files.py, opener.py and *_x.py\n"),
        ("tests/unit/test_main.py", "# gone.py\n"),
    ],
    "broker_programs_against_the_storage_interface": [
        ("broker/x.py", "from milepost.storage.interface import Engine\n"),
        ("broker/run.py", "from milepost.storage.engine import StorageEngine\n"),
        ("cli/x.py", "from milepost.storage.store import Store\n"),
    ],
    "hooks_come_through_constructors": [
        (
            "broker/x.py",
            "class X:\n    def __init__(self, wake: Wake):\n        self.wake = wake\n",
        ),
        ("client/x.py", "self.done: Callable[[], None] = lambda: None\n"),
    ],
    "subjects_have_names": [
        ("broker/x.py", "x = 1  # no consumer has it\n"),
        ("tests/unit/test_x.py", "# nobody\n"),
    ],
    "unit_tests_mirror_sources": [
        ("tests/unit/test_main.py", ""),
        ("tests/unit/test_main_help.py", ""),
        ("tests/unit/test_init.py", ""),
        ("tests/unit/conftest.py", ""),
        ("tests/unit/storage/__init__.py", ""),
        ("tests/property/test_anything.py", ""),
    ],
}

BESIDE = {  # what every small tree has beside the sample
    "pyproject.toml": '[project.scripts]\nmilepost = "milepost.cli.main:main"\n',
    PRODUCT + "main.py": "",
    PRODUCT + "__init__.py": "",
    PRODUCT + "storage/files.py": "import os\n",
    PRODUCT + "storage/opener.py": "from milepost.storage.files import Files\n",
}


def tree_of(path: str, text: str) -> Tree:
    inside = not path.startswith(("tests/", "docs/", "requirements/", "Makefile"))
    return Tree({**BESIDE, (PRODUCT if inside else "") + path: text})


@pytest.mark.parametrize(("name", "sample"), [(name, one) for name in BAD for one in BAD[name]])
def test_a_rule_fires(name: str, sample: tuple[str, str, int]) -> None:
    path, text, line = sample
    found = [p for p in problems(tree_of(path, text), name) if p.path.endswith(path)]
    assert [problem.line for problem in found] == [line]
    assert str(found[0]).startswith(f"{found[0].path}:{line}: [{name}] ")


@pytest.mark.parametrize(("name", "sample"), [(name, one) for name in GOOD for one in GOOD[name]])
def test_a_rule_is_content(name: str, sample: tuple[str, str]) -> None:
    found = [p for p in problems(tree_of(*sample), name) if p.path.endswith(sample[0])]
    assert found == []


def test_every_rule_has_samples() -> None:
    assert set(BAD) == set(GOOD) == set(RULES) - {"rooms_are_small"}


def test_a_room_is_full_at_some_number_of_files() -> None:
    def found(count: int, room: str) -> list[str]:
        files = {f"{PRODUCT}{room}/m{number}.py": "" for number in range(count)}
        return [problem.text for problem in problems(Tree(files), "rooms_are_small")]

    assert found(house.MODULES_MAX, "cursor") == []
    assert found(house.MODULES_MAX + 1, "cursor") == [
        f"{house.MODULES_MAX + 1} modules, at most {house.MODULES_MAX}"
    ]
    assert found(house.MODULES_MAX + 1, "rest/resources") == []


@pytest.mark.parametrize(
    ("user", "text"),
    [
        (PRODUCT + "storage/y.py", "from milepost.storage import x\n"),
        (PRODUCT + "storage/y.py", "from .x import y\n"),
        (PRODUCT + "storage/y.py", "LAZY = 'milepost.storage.x:main'\n"),
        ("tests/crash/test_y.py", "import milepost.storage.x\n"),
        ("Makefile", "run:\n\tpython -m milepost.storage.x\n"),
    ],
)
def test_a_module_lives_by_its_users(user: str, text: str) -> None:
    module = {PRODUCT + "storage/x.py": "x = 1\n"}
    own_test = {"tests/unit/storage/test_x.py": "import milepost.storage.x\n"}
    dead = [(PRODUCT + "storage/x.py", 1)]

    def found(more: dict[str, str]) -> list[tuple[str, int]]:
        all_found = problems(Tree({**BESIDE, **module, **own_test, **more}), "no_dead_modules")
        return [(p.path, p.line) for p in all_found if p.path.endswith("storage/x.py")]

    assert found({}) == dead
    assert found({user: text}) == []


def test_the_table_is_the_one_of_the_design() -> None:
    """Spelled out a second time, so that loosening a row is a decision and not a slip."""
    design = {
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
    assert design == PRODUCT_PACKAGES
    assert all(
        "testing" not in allowed for package, allowed in MAY_IMPORT.items() if package != "testing"
    )
