"""The rules of the house: rooms, their layers and lists, how long things may be, and named subjects.

They read the same trees as `rules.py` and are registered in the same table.
"""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Container

from tidy.rules import HARMLESS, IMPURE_MODULES, PURE, Found, rule
from tidy.tree import PRODUCT, Tree, imports_at_run_time, nodes

# The rooms of the broker, lowest first. A room imports those before it, never those behind it.
BROKER_LAYERS = (
    "peer",
    "settings",
    "policies",
    "metrics",
    "limits",
    "messages",
    "transactions",
    "dispatch",
    "subscription",
    "topic",
    "auth",
    "directory",
    "workers",
    "operations",
    "monitoring",
    "connection",
    "topic_loader",
    "dynamic_settings",
    "broker",
    "run",
)

MODULES_MAX = 16
# Folders that are lists by nature: one file a command, a resource or a group of commands.
LISTS = {
    "admin",
    "broker/connection/handlers",
    "cli/admin",
    "rest/resources",
}
FUNCTION_LINES_MAX = 70  # without the docstring
# Loops that are one function because a call for each message would cost more than the rest of it.
HOT_LOOPS = {
    ("wire/scanners/send_scan.py", "scan_sends"),
    ("spark/reading/scan.py", "scan_rows"),
}

# What implements `storage/interface.py`.
STORAGE_CLASSES = (
    "milepost.storage.engine",
    "milepost.storage.store",
    "milepost.storage.journal",
    "milepost.storage.catalog.sqlite_catalog",
)

# A line of a package's docstring that names one of its files: the name, two or more
# spaces, what it is.
LISTED = re.compile(r"^(?: {4})?(\w+/?) {2,}\S", re.MULTILINE)

# A Python file, named by the end of its path; not a pattern such as *_test.py.
NAMED_FILE = re.compile(r"(?<![\w./*-])\w[\w/]*\.py\b")

# Words that stand where a subject should.
FACELESS = re.compile(r"\b(whoever|whomever|somebody|nobody|anybody|thereof)\b", re.IGNORECASE)


@rule
def broker_rooms_are_layers(tree: Tree) -> Found:
    """What is imported for its type alone does not count: it is not there when the code runs."""
    order = {name: place for place, name in enumerate(BROKER_LAYERS)}
    for path, inner, module in tree.product():
        parts = inner.removesuffix(".py").split("/")
        if parts[0] != "broker" or parts[1] == "__init__":
            continue
        if parts[1] not in order:
            yield path, 1, f"broker/{parts[1]} has no place among the broker's layers"
            continue
        for found in imports_at_run_time(path, module):
            names = found.module.split(".")
            if names[:2] != ["milepost", "broker"] or len(names) < 3:
                continue
            if order.get(names[2], -1) > order[parts[1]]:
                yield path, found.line, f"{parts[1]} may not import {names[2]}, a higher layer"


@rule
def purity_is_transitive(tree: Tree) -> Found:
    """What a pure module imports, and what that imports, asks for no clock, socket, thread or file."""
    modules = {inner: (path, module) for path, inner, module in tree.product()}
    needs = {
        inner: {
            (found.line, there)
            for found in imports_at_run_time(path, module)
            if (there := _file_of(found.module, modules)) and there != inner
        }
        for inner, (path, module) in modules.items()
    }
    impure = {
        inner: why
        for inner, (path, module) in modules.items()
        if inner not in ("errors.py", "clock.py") and (why := _impurity(inner, path, module))
    }
    for inner, (path, _) in modules.items():
        if not inner.startswith(PURE):
            continue
        for line, first in sorted(needs[inner]):
            seen, waiting = {inner}, [first]
            while waiting:
                at = waiting.pop()
                if at in seen:
                    continue
                seen.add(at)
                if at in impure:
                    way = f"{first}, which leads to {at}" if at != first else at
                    yield path, line, f"pure module imports {way}: {impure[at]}"
                    break
                waiting.extend(there for _, there in needs[at])


def _file_of(dotted_name: str, modules: Container[str]) -> str | None:
    """The product file that an import means: the longest part of its name that is a module."""
    names = dotted_name.split(".")
    if names[0] != "milepost":
        return None
    for count in range(len(names), 1, -1):
        if (file := "/".join(names[1:count]) + ".py") in modules:
            return file
    return None


def _impurity(inner: str, path: str, module: ast.Module) -> str | None:
    for found in imports_at_run_time(path, module):
        for name in (found.top, ".".join(found.module.split(".")[:2])):
            if name in IMPURE_MODULES and (inner, name) not in HARMLESS:
                return f"it imports {name}"
    if any(nodes(module, ast.AsyncFunctionDef, ast.Await)):
        return "it is async"
    return None


@rule
def rooms_are_small(tree: Tree) -> Found:
    counts: Counter[str] = Counter()
    for _, inner, _ in tree.product():
        folder, _, name = inner.rpartition("/")
        if folder and name != "__init__.py":
            counts[folder] += 1
    for folder, count in sorted(counts.items()):
        if count > MODULES_MAX and folder not in LISTS:
            yield f"{PRODUCT}{folder}/__init__.py", 1, f"{count} modules, at most {MODULES_MAX}"


@rule
def functions_are_short(tree: Tree) -> Found:
    for path, inner, module in tree.product():
        for node in nodes(module, ast.FunctionDef, ast.AsyncFunctionDef):
            count = (node.end_lineno or node.lineno) - node.lineno + 1
            if ast.get_docstring(node):
                count -= (node.body[0].end_lineno or 0) - node.body[0].lineno + 1
            # A constructor is a list of fields, each with its comment.
            is_list = node.name == "__init__" or (inner, node.name) in HOT_LOOPS
            if count > FUNCTION_LINES_MAX and not is_list:
                text = f"{node.name} has {count} lines, at most {FUNCTION_LINES_MAX}"
                yield path, node.lineno, text


@rule
def rooms_list_their_files(tree: Tree) -> Found:
    """The docstring of a package has a line for each file and folder in it, and for no other."""
    rooms: dict[str, set[str]] = {}
    for path in tree.texts:
        if not path.startswith(PRODUCT) or not path.endswith(".py") or path.endswith("_pb2.py"):
            continue
        folder, _, name = path.removeprefix(PRODUCT).rpartition("/")
        if folder and name != "__init__.py":
            rooms.setdefault(folder, set()).add(name.removesuffix(".py"))
        above, _, own = folder.rpartition("/")
        if above:
            rooms.setdefault(above, set()).add(f"{own}/")
    for folder, there in sorted(rooms.items()):
        path = f"{PRODUCT}{folder}/__init__.py"
        doc = ast.get_docstring(ast.parse(tree.texts.get(path, "")), clean=False) or ""
        listed = LISTED.findall(doc)
        for name in sorted(there - set(listed)):
            yield path, 1, f"{name} is not in the list of files"
        for name in sorted(set(listed) - there):
            yield path, 1, f"{name} is in the list and not in the folder"


@rule
def subjects_have_names(tree: Tree) -> Found:
    """Docstrings, comments, messages and pages say who: the producer, the operator, the waiting consumer."""
    pages = ("src/", "docs/", "README", "CHANGELOG", "SECURITY")
    for path, number, found in tree.found(FACELESS, *pages):
        yield path, number, f"{found[0]}: name the subject"


@rule
def broker_programs_against_the_storage_interface(tree: Tree) -> Found:
    """Only `run.py`, which makes them, knows the store, its journal and its catalog by their classes."""
    for path, inner, _ in tree.product():
        if inner.startswith(("broker/", "rest/")) and inner != "broker/run.py":
            for found in tree.imports[path]:
                if found.module.startswith(STORAGE_CLASSES):
                    yield path, found.line, f"{found.module}: program against storage/interface.py"


@rule
def hooks_come_through_constructors(tree: Tree) -> Found:
    """An attribute that holds a function has it from the constructor: a lambda that another object
    overwrites later leads a reader who asks "who is called here?" to a function that does nothing."""
    for path, inner, module in tree.product():
        if not inner.startswith("broker/"):
            continue
        for node in nodes(module, ast.AnnAssign):
            if isinstance(node.target, ast.Attribute) and isinstance(node.value, ast.Lambda):
                yield path, node.lineno, f"{node.target.attr} is a lambda until it is overwritten"


@rule
def named_files_exist(tree: Tree) -> Found:
    """A Python file that a docstring, a comment or a page names is there."""
    there = {
        path.split("/", above)[-1] for path in tree.texts for above in range(path.count("/") + 1)
    }
    for path, number, found in tree.found(NAMED_FILE, "src/", "docs/", "README"):
        if found[0] not in there:
            yield path, number, f"there is no {found[0]}"
