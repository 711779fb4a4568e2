"""Prints the steps of a tour, and ends it when a promise does not hold."""

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
