"""Merges settings from files, environment and options.

Each source overrules those before it: the defaults, a Pulsar conf file, a TOML file, `MILEPOST_*`
variables, flags. Every value remembers where it came from; what cannot be used is refused with file,
line, key, value and what would be allowed. It knows no setting by name: that is the broker's table.

    loaded = load(toml=Path("milepost.toml"), environ={"MILEPOST_PORT": "7000"})
    loaded.settings.port, loaded.origins["port"]      # 7000, "MILEPOST_PORT"
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from milepost.broker.settings.setting import HIDDEN, Setting, Value
from milepost.broker.settings.settings import PULSAR_KEYS, TABLE, Settings
from milepost.cli.connection.connection import OF_THE_COMMAND_LINE
from milepost.cli.server import conf_text
from milepost.errors import InvalidSetting, MissingFile

ENVIRONMENT = "MILEPOST_"

# As the Pulsar container images read it: PULSAR_PREFIX_<key of broker.conf>.
PULSAR_ENVIRONMENT = "PULSAR_PREFIX_"


class Unused(NamedTuple):
    """A key that was read and means nothing here."""

    where: str
    key: str


@dataclass(frozen=True)
class Loaded:
    """Settings, where each came from, and what was not used."""

    settings: Settings
    origins: dict[str, str]
    unused: tuple[Unused, ...] = ()

    @property
    def warnings(self) -> Iterator[str]:
        """What an operator should hear once: promises switched off, and keys without a meaning."""
        for name, setting in TABLE.items():
            if setting.weakens and not getattr(self.settings, name):
                yield f"{name} is off ({self.origins[name]}): {setting.weakens}"
        if self.unused:
            files = sorted({one.where.partition(":")[0] for one in self.unused})
            keys = ", ".join(sorted({one.key for one in self.unused}))
            yield f"not used here, from {' and '.join(files)}: {keys}"


@dataclass
class _Draft:
    """The values so far. A later source overrules; within one, two different values are an error."""

    values: dict[str, Value] = field(default_factory=dict)
    origins: dict[str, str] = field(default_factory=lambda: dict.fromkeys(TABLE, "default"))
    unused: list[Unused] = field(default_factory=list)

    # Settings that the present source has given. Invariant: cleared between sources.
    _given: set[str] = field(default_factory=set)

    def next_source(self) -> None:
        self._given.clear()

    def put(
        self, setting: Setting, value: Value | None, where: str, key: str, shown: object
    ) -> None:
        name = setting.name
        shown = HIDDEN if setting.secret else shown
        if value is None:
            raise InvalidSetting(f"{where}: {key} = {shown}: expected {setting.allowed}")
        if name in self._given and self.values[name] != value:
            raise InvalidSetting(
                f"{where}: {key} = {shown}: {self.origins[name]} says {setting.show(self.values[name])}; "
                "keep one of them"
            )
        self._given.add(name)
        self.values[name] = value
        self.origins[name] = where

    def put_pulsar(self, where: str, key: str, written: str) -> None:
        """A key of `broker.conf`. Written without a value, it mostly asks for the default, as upstream."""
        if key not in PULSAR_KEYS:
            self.unused.append(Unused(where, key))
            return
        setting, alias = PULSAR_KEYS[key]
        if written.strip():
            self.put(setting, setting.parse(written, alias), where, key, ascii(written.strip()))
        elif alias.empty is not None:
            self.put(setting, alias.empty, where, key, "")


def load(
    *,
    conf: Path | None = None,
    toml: Path | None = None,
    environ: Mapping[str, str] | None = None,
    flags: Iterable[tuple[str, str, str]] = (),
) -> Loaded:
    """Read every source in order. A flag is (as written, setting's name, text)."""
    draft = _Draft()
    if conf is not None:
        for line, key, written in conf_text.conf_lines(_read(conf), conf.name):
            draft.put_pulsar(f"{conf.name}:{line}", key, written)
    draft.next_source()
    if toml is not None:
        for line, key, value in conf_text.toml_lines(_read(toml), toml.name):
            setting = _known(f"{toml.name}:{line}", key)
            # A table or a list is no setting's value, and may be too deep to be shown.
            shown = f"a {type(value).__name__}" if isinstance(value, dict | list) else ascii(value)
            draft.put(setting, setting.take(value), f"{toml.name}:{line}", key, shown)
    _load_environment(draft, environ or {})
    draft.next_source()
    for flag, name, written in flags:
        setting = _known(flag, name)
        draft.put(setting, setting.parse(written), flag, name, ascii(written))
    settings = Settings(**draft.values)  # type: ignore[arg-type]  # each was read by its own row
    return Loaded(settings, draft.origins, tuple(draft.unused))


def _load_environment(draft: _Draft, environ: Mapping[str, str]) -> None:
    """`PULSAR_PREFIX_<key>` as the Pulsar images have it, then `MILEPOST_<NAME>`.

    A variable is shared with other programs, so one that means nothing is reported, not refused.
    """
    draft.next_source()
    for variable in sorted(environ):
        if variable.startswith(PULSAR_ENVIRONMENT):
            key = variable.removeprefix(PULSAR_ENVIRONMENT)
            draft.put_pulsar(variable, key, environ[variable])
    draft.next_source()
    for variable in sorted(environ):
        if not variable.startswith(ENVIRONMENT):
            continue
        setting = TABLE.get(variable.removeprefix(ENVIRONMENT).lower())
        written = environ[variable]
        if setting is None and variable in OF_THE_COMMAND_LINE:
            continue
        if setting is None:
            draft.unused.append(Unused("environment", variable))
        else:
            draft.put(setting, setting.parse(written), variable, setting.name, ascii(written))


def _known(where: str, key: str) -> Setting:
    if key in TABLE:
        return TABLE[key]
    if key in PULSAR_KEYS:
        ours = PULSAR_KEYS[key][0].name
        raise InvalidSetting(
            f"{where}: {key}: that is Pulsar's name; here it is {ours}, and --conf reads broker.conf"
        )
    near = difflib.get_close_matches(key, TABLE, n=1)
    hint = f"did you mean {near[0]}?" if near else "`milepost config show` lists the settings"
    raise InvalidSetting(f"{where}: {key}: there is no such setting; {hint}")


def _read(file: Path) -> str:
    try:
        return file.read_text("utf-8")
    except FileNotFoundError:
        raise MissingFile(f"{file}: cannot be read: there is no such file") from None
    except OSError as error:
        raise InvalidSetting(f"{file}: cannot be read: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise InvalidSetting(f"{file}: not UTF-8 at byte {error.start}") from None
