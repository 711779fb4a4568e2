"""Commands and programs of the pages, as they stand there, against a broker of their own."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from e2e.conftest import ENVIRONMENT, MILEPOST, Serving

DOCS = Path(__file__).parents[2] / "docs"
ORDERS = "persistent://public/default/orders"


def blocks(page: str, kind: str) -> list[str]:
    return re.findall(rf"```{kind}\n(.*?)```", (DOCS / page).read_text("utf-8"), re.DOTALL)


def milepost(url: str, *args: str, code: int = 0) -> str:
    done = subprocess.run(
        [*MILEPOST, *args],
        env={**ENVIRONMENT, "MILEPOST_ADMIN_URL": url},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == code, f"{args}: {done.stderr}"
    return done.stdout


def test_security_in_five_minutes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (block,) = [one for one in blocks("security.md", "console") if "create-secret-key" in one]
    key, token, serve, grant = re.split(r"^\$ milepost ", block, flags=re.MULTILINE)[1:]

    def shell(words: str) -> str:
        program = f"{shlex.quote(sys.executable)} -m milepost.cli.main"
        return subprocess.check_output(
            ["bash", "-c", f"{program} {words}"], cwd=tmp_path, env=environment, text=True
        )

    environment = dict(ENVIRONMENT)
    shell(key)
    shell(token)
    monkeypatch.chdir(tmp_path)  # where settings look for files
    broker = Serving(tmp_path / "data", *shlex.split(serve.replace("\\\n", " "))[1:])
    try:
        environment["MILEPOST_ADMIN_URL"] = broker.ready["http_url"]
        shell(grant)
        shell("tokens create --secret-key secret.key --subject app > app.token")
        shell("--token-file app.token produce orders -m x")
        milepost(broker.ready["http_url"], "produce", "orders", "-m", "x", code=4)
    finally:
        assert broker.stop()[0] == 0


def test_progress_and_the_admin_client(serving: Serving) -> None:
    """Commands of progress.md, but for the one that watches; programs of admin.md."""
    url = serving.ready["http_url"]
    programs = blocks("admin.md", "python")
    create, stats, who, move = programs

    def python(program: str) -> str:
        done = subprocess.run(
            [sys.executable, "-c", program.replace("http://localhost:8080", url)],
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    assert python(create).startswith("404 ")  # nobody has published so much
    indented = "\n".join("    " + line for line in stats.splitlines())
    python(f"import asyncio\nasync def main():\n{indented}\nasyncio.run(main())")
    python(f"read_token = lambda: 'x'\nimport pathlib\n{who.split('Admin(', 1)[0]}")
    opened = f"from milepost.admin import Admin\nadmin = Admin({url!r})\n"
    nowhere = move.replace("by=-100", "by=0")  # there is nothing to go back to
    assert python(opened + nowhere) == "0 0 [0, 0, 0, 0]\n"

    (member,) = blocks("progress.md", "python")
    connected = f"import pulsar\nclient = pulsar.Client({serving.ready['pulsar_url']!r})\n"
    python(connected + member + "client.close()")
    assert "cache-7" in milepost(url, "progress", "-g", "caches", "-o", "json")

    milepost(url, "produce", "orders", "-m", "x")
    (block,) = [one for one in blocks("progress.md", "sh") if "milepost progress" in one]
    lines = [shlex.split(line, comments=True)[1:] for line in block.splitlines()]
    codes = {tuple(words): 9 if "--check" in words else 0 for words in lines}
    codes.pop(("progress", "--watch", "2", "-n", "public/default"))
    shown = [milepost(url, *words, code=code) for words, code in codes.items()]
    assert all("NO_CONSUMER" in one for one in shown)


def test_programs_of_the_page_about_schemas() -> None:
    for program in blocks("schemas.md", "python"):
        exec(compile(program, "docs/schemas.md", "exec"), {"__name__": "page"})


@pytest.mark.parametrize("page", ["migrating.md", "cli.md"])
def test_commands_that_are_only_shown_are_there(page: str) -> None:
    """Every `milepost …` of a block names a command, and its long options are options of it."""
    from milepost.cli.main import milepost as root

    for block in blocks(page, "sh"):
        for line in block.splitlines():
            for words in re.findall(r"milepost ([^|>#)\"]+)", line):
                check(root, shlex.split(words))


def check(command: object, words: list[str]) -> None:
    import click

    assert isinstance(command, click.Command)
    ctx = click.Context(command)
    options = {flag for one in command.get_params(ctx) for flag in one.opts}
    for number, word in enumerate(words):
        if word.startswith("--"):
            assert word.partition("=")[0] in options, f"{command.name} {word}"
        elif isinstance(command, click.Group):
            inner = command.get_command(ctx, word)
            if inner is not None:
                check(inner, words[number + 1 :])
                return
