"""Makes docs/configuration.md from the table of settings.

milepost config reference > docs/configuration.md
"""

from __future__ import annotations

from milepost.broker.settings.setting import Alias, Kind, Setting
from milepost.broker.settings.settings import GROUPS, TABLE

INTRODUCTION = """\
# Configuration

Everything has a default: `milepost serve` runs without a file. A setting has one name everywhere:

| where | how | example |
| --- | --- | --- |
| a flag | its own, or `--set` for any | `--port 7000`, `--set max_message_size=10MiB` |
| the environment | `MILEPOST_` and the name in capitals | `MILEPOST_MAX_MESSAGE_SIZE=10MiB` |
| a TOML file | `--config milepost.toml` | `max_message_size = "10 MiB"` |
| a Pulsar conf file | `--conf broker.conf`, by Pulsar's name | `maxMessageSize=10485760` |

A flag overrules the environment, the environment the TOML file, the TOML file the Pulsar conf file,
and that the default. `milepost config show --origin` prints every value and where it came from;
`milepost serve --check-config` checks without starting.

- What cannot be used is refused before anything starts, with file, line, key, value and what is
  allowed. In a TOML file an unknown key is an error, and the nearest name is suggested. So is one
  setting given two different values in one place.
- Of a Pulsar conf file (`broker.conf`, `standalone.conf`) the keys below are honoured; the others
  are listed once at start. A key without a value asks for the default; a port without one, for none.
  `PULSAR_PREFIX_<key>` in the environment is read as the Pulsar images read it, and ranks with the
  environment.
- Conf files copied from Pulsar may switch off what Milepost has on: batch index acks and the
  exposure of broker entry metadata are honoured as written, with a warning at start. For
  `brokerEntryMetadataInterceptors` an empty list is no decision: only `broker_entry_metadata =
  false` switches it off.
- Sizes are bytes, or a number with `KiB`, `MiB` or `GiB`. Names that end in `_s` and `_ms` are
  seconds and milliseconds. A relative path starts at the working directory.
- *live* marks what can change without a restart: `milepost brokers update-dynamic-config`, by Pulsar's key.
  What is changed so holds before every other source, also after a restart, until
  `milepost brokers delete-dynamic-config`.
"""

_HEAD = "| setting | default | allowed | Pulsar's key | what it means |\n| --- | --- | --- | --- | --- |"


def page() -> str:
    parts = [INTRODUCTION]
    for name, setting in TABLE.items():
        if name in GROUPS:
            parts.append(f"\n## {GROUPS[name]}\n\n{_HEAD}\n")
        parts.append(_row(setting))
    return "".join(parts)


def _row(setting: Setting) -> str:
    default = setting.show(setting.default)
    cells = (
        f"`{setting.name}`" + (" *live*" if setting.live else ""),
        f"`{default}`" if default else "empty",
        "bytes" + setting.allowed.removeprefix(Kind.SIZE.value)
        if setting.kind is Kind.SIZE
        else setting.allowed,
        ", ".join(_key(alias) for alias in setting.aliases),
        setting.doc,
    )
    return f"| {' | '.join(cells)} |\n"


def _key(alias: Alias) -> str:
    units = {1024 * 1024: " (MB)", 60: " (minutes)", 0.001: " (ms)", 1: ""}
    return f"`{alias.key}`{units[alias.unit]}"
