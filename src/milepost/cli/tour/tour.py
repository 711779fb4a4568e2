"""How a tour talks: numbered steps, what happened, and promises that end it when they do not hold."""

from __future__ import annotations

import click

from milepost.cli.exits import CommandFailed, Exit


def step(number: int, text: str) -> None:
    click.echo(f"\n{number}. {text}")


def told(text: str) -> None:
    click.echo(f"   {text}")


def expect(what: str, expected: object, found: object) -> None:
    if found != expected:
        raise CommandFailed(
            f"the tour failed: {what}: expected {expected}, got {found}", Exit.FAILED
        )
