"""The project's files, their syntax trees and imports, as the rules read them.

Owns reading and naming; never judges. A `Tree` can be the real one or a few made-up files:

    Tree({"src/milepost/wire/x.py": "import os"}).imports
    # {"src/milepost/wire/x.py": [Import(line=1, module="os")]}
"""

from __future__ import annotations

import ast
import gc
import re
import subprocess
from collections.abc import Iterator
from functools import cache, cached_property
from pathlib import Path
from typing import NamedTuple, TypeVar, cast

PRODUCT = "src/milepost/"
GENERATED = tuple(
    f"src/milepost/{name}_pb2.{kind}"
    for name in ("wire/pulsar", "rocketmq/rocketmq")
    for kind in ("py", "pyi")
)

# Commands that load lazily name their module in a string, with or without ":function".
LAZY_IMPORT = re.compile(r"milepost(\.\w+)+(:\w+)?")


NAMING = (ast.Attribute, ast.FunctionDef, ast.AsyncFunctionDef, ast.Module, ast.ClassDef)
_Node = TypeVar("_Node", bound=ast.AST)


class Import(NamedTuple):
    line: int
    module: str  # dotted and absolute; `from a import b` gives a.b

    @property
    def top(self) -> str:
        return self.module.partition(".")[0]

    @property
    def package(self) -> str | None:
        """Milepost's package, or module beside the packages, that is meant."""
        parts = self.module.split(".")
        return parts[1] if parts[0] == "milepost" and len(parts) > 1 else None


class Tree:
    """Files by their path below the project's root."""

    def __init__(self, texts: dict[str, str]) -> None:
        self.texts = texts

    @classmethod
    def load(cls, root: Path) -> Tree:
        """What git tracks or would track."""
        listed = subprocess.run(
            ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
            cwd=root,
            capture_output=True,
            text=True,
            check=True,
        )
        texts = {}
        for path in sorted(set(listed.stdout.splitlines())):
            try:
                texts[path] = (root / path).read_text("utf-8")
            except (FileNotFoundError, IsADirectoryError, UnicodeDecodeError):
                continue
        return cls(texts)

    def python(self, *folders: str) -> Iterator[tuple[str, ast.Module]]:
        for path, text in self.texts.items():
            if path.endswith(".py") and path.startswith(folders) and path not in GENERATED:
                yield path, _parse(text)

    def product(self) -> Iterator[tuple[str, str, ast.Module]]:
        """(path, path inside the package, syntax tree) of every product module."""
        for path, module in self.python(PRODUCT):
            yield path, path.removeprefix(PRODUCT), module

    def found(
        self, pattern: re.Pattern[str], *folders: str
    ) -> Iterator[tuple[str, int, re.Match[str]]]:
        """(path, line, match) of a pattern in the texts that were written by hand."""
        for path, text in self.texts.items():
            if path not in GENERATED and path.startswith(folders or ""):
                for match in pattern.finditer(text):
                    yield path, text.count("\n", 0, match.start()) + 1, match

    @cached_property
    def imports(self) -> dict[str, list[Import]]:
        return {
            path: list(_imports(path, module))
            for path, module in self.python("src/", "tests/", "bench/")
        }


@cache
def _parse(text: str) -> ast.Module:
    """The trees are millions of objects that stay: hidden from the collector, which would look through all of
    them again and again."""
    gc.disable()
    try:
        return ast.parse(text)
    finally:
        gc.freeze()
        gc.enable()


@cache
def _by_kind(module: ast.Module) -> dict[type[ast.AST], list[ast.AST]]:
    """A tree is walked once: of its many nodes every rule asks for a few kinds."""
    kinds: dict[type[ast.AST], list[ast.AST]] = {}
    waiting: list[ast.AST] = [module]
    while waiting:
        node = waiting.pop()
        kinds.setdefault(type(node), []).append(node)
        for value in vars(node).values():
            if isinstance(value, ast.AST):
                waiting.append(value)
            elif isinstance(value, list):
                waiting.extend(one for one in value if isinstance(one, ast.AST))
    return kinds


def nodes(module: ast.Module, *kinds: type[_Node]) -> Iterator[_Node]:
    """The nodes of some kinds in a whole module, kind by kind."""
    found = _by_kind(module)
    for kind in kinds:
        yield from cast("list[_Node]", found.get(kind, []))


def _imports(path: str, module: ast.Module) -> Iterator[Import]:
    package = path.removeprefix("src/").removesuffix(".py").split("/")[:-1]
    for node in nodes(module, ast.Import, ast.ImportFrom, ast.Constant):
        if isinstance(node, ast.Import):
            yield from (Import(node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = package[: len(package) - node.level + 1] if node.level else []
            origin = ".".join([*above, *([node.module] if node.module else [])])
            yield from (Import(node.lineno, f"{origin}.{alias.name}") for alias in node.names)
        elif (
            isinstance(node, ast.Constant)
            and isinstance(text := node.value, str)
            and LAZY_IMPORT.fullmatch(text)
        ):
            yield Import(node.lineno, text.replace(":", "."))


def imports_at_run_time(path: str, module: ast.Module) -> Iterator[Import]:
    """The imports of a module that happen when it is loaded: not those under TYPE_CHECKING."""
    for_types = {
        part.lineno
        for node in nodes(module, ast.If)
        if dotted(node.test).endswith("TYPE_CHECKING")
        for part in ast.walk(node)
        if isinstance(part, ast.Import | ast.ImportFrom)
    }
    for found in _imports(path, module):
        if found.line not in for_types:
            yield found


def dotted(node: ast.expr) -> str:
    """os.path.join as it is written; calls on the way as (), anything else as ?."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        return f"{dotted(node.value)}.{node.attr}"
    if isinstance(node, ast.Call):
        return f"{dotted(node.func)}()"
    return "?"


def resolved(module: ast.Module, name: str) -> str:
    """The name with the module's import aliases taken back: `from time import time as t`; t."""
    first, dot, rest = name.partition(".")
    return _aliases(module).get(first, first) + dot + rest


@cache
def _aliases(module: ast.Module) -> dict[str, str]:
    aliases: dict[str, str] = {}
    for node in nodes(module, ast.Import, ast.ImportFrom):
        if isinstance(node, ast.Import):
            aliases |= {alias.asname: alias.name for alias in node.names if alias.asname}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            aliases |= {
                alias.asname or alias.name: f"{node.module}.{alias.name}" for alias in node.names
            }
    return aliases


def names_used(module: ast.Module) -> Iterator[tuple[int, str]]:
    for node in nodes(module, ast.Name, ast.Attribute):
        if isinstance(node.ctx, ast.Load):
            yield node.lineno, resolved(module, dotted(node))


def given_names(module: ast.Module) -> Iterator[tuple[int, str]]:
    """Names that others see: classes, functions, their parameters, attributes, fields, constants.

    Not locals, not what private functions call their parameters, not names of libraries that are
    only used. A parameter `offset` beside bytes is a place in those bytes.
    """
    for node in nodes(module, *NAMING):
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            yield node.lineno, node.attr
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node.lineno, node.name
            args = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
            in_bytes = any("bytes" in ast.unparse(arg.annotation or arg) for arg in args)
            if not node.name.startswith("_") or node.name.startswith("__"):
                yield from (
                    (arg.lineno, arg.arg) for arg in args if not (in_bytes and arg.arg == "offset")
                )
        elif isinstance(node, ast.Module | ast.ClassDef):
            if isinstance(node, ast.ClassDef):
                yield node.lineno, node.name
            for statement in node.body:
                if isinstance(statement, ast.Assign | ast.AnnAssign | ast.For):
                    yield from (
                        (part.lineno, part.id)
                        for part in ast.walk(statement)
                        if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Store)
                    )


def words(identifier: str) -> list[str]:
    return [word.lower() for word in re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+", identifier)]
