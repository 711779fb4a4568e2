"""Makes docs/cli.md from the commands.

`python -m milepost.cli.manual > docs/cli.md` makes it again. What every command shares is written
here; the rest is each command's own help.
"""

from __future__ import annotations

from collections.abc import Iterator

import click

from milepost.cli.admin.policy_group import PolicyGroup
from milepost.cli.main import milepost

INTRODUCTION = """\
# Command line

`milepost` runs the broker and operates it, or an Apache Pulsar cluster: both speak the same admin API.
This page is made from the commands (`make docs`); `milepost COMMAND --help` prints the same.

## Coming from pulsar-admin

`milepost topics …`, `namespaces …` and `tenants …` speak `pulsar-admin`'s grammar: the same commands,
options and output, so that a script moves over by the name of the program. Differences:

- exit codes tell failures apart (below); `milepost admin topics …` has 0 and 1 only, as the original;
- a message that is peeked out of a batch shows its own index, not that of the batch's last message;
- `set-retention` refuses a time below a minute and a size below 1M, which the original rounds to 0: keep
  nothing; `get-…` of a topic's policy takes `-ap` wherever the broker can tell what holds;
- `-m`, `--messageId` takes every *place* (below), an index among them;
- `-sbs` is always on, and host names are always verified with TLS;
- commands that lose or move something have `--dry-run`: it prints from where to where, how many messages
  would be delivered again and how many skipped, and changes nothing. Only a Milepost broker can count
  that.

## Which broker

Options about the broker (`--admin-url`, `--token`, …) stand before the command or behind it. What is not
given comes from the first of these that has it:

1. the context that `--context` names;
2. `MILEPOST_ADMIN_URL`, `MILEPOST_URL`, `MILEPOST_TOKEN`, `MILEPOST_TOKEN_FILE`;
3. a `client.conf` of Pulsar, named by `MILEPOST_CLIENT_CONF` or `PULSAR_CLIENT_CONF`;
4. the current context (`milepost context use`, or `MILEPOST_CONTEXT`);
5. `http://localhost:8080`, and the binary address that the broker tells.

A context is one broker: where something stronger gives either address, neither is taken from a context.
Of the two addresses one is enough. The HTTP port tells the binary address, with TLS if it speaks TLS
itself; beside `--url` alone the HTTP port is the usual one (8080, with TLS 8443) of the same host.
Pipelines find their broker the same way.

Contexts are kept in `~/.config/milepost/contexts.json` (or `$MILEPOST_CONTEXTS`), readable by you only:

```sh
milepost context add staging --admin-url http://broker:8080 --token-file ~/.milepost/token
milepost context use staging
```

## Places

A place in a topic, wherever one is asked for:

| written | means |
| --- | --- |
| `earliest`, `latest` | the first message that is kept; behind the last |
| `120`, `index:120` (or `idx:`) | the message with that index |
| `-10`, `index:-10` | ten before the end, of each partition its own |
| `3:7`, `id:3:7`, `3:7:-1:2`, `(3,7,-1,2)` | a message id, as Java or C++ prints it |
| `2026-11-15T14:00:00Z`, `time:14:30`, `@1700000000000`, `-10m` | a time: the first message not before it |

What has two readings (`14:30`, `1700000000000`) is refused with the ways to say it. A move to an id, an index
or a time that is not there is refused with what is there, exit code 5, and moves nothing.

## Output

`-o json` and `-o csv` are for programs, and stable; `-o table` is for people. Without `-o` a list is a name
a line and an object is indented JSON, as `pulsar-admin` prints them; Milepost's own reports are tables.
Results go to standard output, everything else to standard error.

A terminal gets what fits it: `progress` and `topics list` leave out columns that are all zero, cut long names
in their middle, and leave out what matters least; other tables that are too wide are turned, one field a
line. Reasons stand below their rows where there is no room beside them. Topics have the shortest name that
commands read. A pipe or a file gets everything, with full names, and `topics list` prints names there, as
`pulsar-admin` does; `milepost admin topics list` does so everywhere.

Colours are for terminals only; `NO_COLOR` set to anything, or `TERM=dumb`, switches them off. A terminal with
`TERM=dumb` gets ASCII. `COLUMNS` overrules the terminal's width.

## Messages and schemas

`produce`, `consume` and `peek` take payloads as they are, and with `--schema` as JSON by the topic's schema,
both ways: AVRO in Avro's own JSON encoding (a union's value stands under the name of its type),
PROTOBUF_NATIVE in protobuf's, JSON, text, numbers, dates. `peek` always shows values so in its table; it cuts
what is long and says how to see the rest.

A line of `consume --json` or `peek --json` is a whole message, which `produce --json` publishes unchanged:
`key` or `key_base64`, `ordering_key`, `event_time`, `properties`, and `data` (null, or text), `data_base64`
(what is no text), or with `--schema` the `value`. So a topic is copied by a pipe:

```sh
milepost consume orders --exit --json | milepost produce copy --json
milepost consume orders --exit --schema --where key=guest-7 --where property.region=eu
milepost produce orders --schema --json < orders.jsonl
```

`--where` may be given several times, and all must hold: `key`, `property.NAME` or `$.PATH`, with `=` `!=`
`<` `<=` `>` `>=`, or `~` for a part of a text; alone it asks whether it is there. A path is
`$.order.items[0].name` or `$['odd.name']`, into the value by its schema or into a payload that is JSON:
`--where '$.total>=100'`.

## Exit codes

| code | meaning |
| --- | --- |
| 0 | done |
| 1 | something Milepost did not foresee, or the broker failed |
| 2 | a wrong command, option, value, setting or file of settings |
| 3 | the broker cannot be reached |
| 4 | no valid credentials, or not the right |
| 5 | not found |
| 6 | it exists, is in use, or is not in the state that was asked for |
| 7 | damaged data, or of a newer format |
| 8 | the disk or the file system said no |
| 9 | `progress --check`: a group is in trouble |
| 130, 141 | interrupted; the reader of the output has left |

An error is one line: the command, the object, the reason, the next step. There is never a traceback.

## Completion

Tab completes commands and options, and the names of topics, groups, namespaces, tenants, contexts and
settings, once the shell is told how. Names are asked of the broker that the command line means; if it does
not answer within half a second, nothing is offered.

```sh
eval "$(milepost completion bash)"             # in ~/.bashrc; the same with zsh in ~/.zshrc
milepost completion fish > ~/.config/fish/completions/milepost.fish
```

## Commands
"""


def page() -> str:
    # With the settings of a real run: a command keeps the help option that it made first.
    ctx = click.Context(milepost, info_name="milepost", **milepost.context_settings)
    return INTRODUCTION + "".join(_sections(milepost, ctx))


def _sections(command: click.Command, ctx: click.Context) -> Iterator[str]:
    if isinstance(command, click.Group):
        own = command.table if isinstance(command, PolicyGroup) else command.list_commands(ctx)
        for name in own:
            inner = command.get_command(ctx, name)
            # `admin` is what was shown already, under another name.
            if inner is None or name in ("admin", "standalone") or inner.hidden:
                continue
            below = click.Context(inner, info_name=name, parent=ctx)
            if isinstance(inner, click.Group):
                yield f"\n### `{below.command_path}`\n\n{_words(inner)}\n"
            yield from _sections(inner, below)
        if isinstance(command, PolicyGroup):
            yield from _policies(command, ctx)
        return
    usage = " ".join(command.collect_usage_pieces(ctx))
    depth = "####" if ctx.parent is not None and ctx.parent.parent is not None else "###"
    yield f"\n{depth} `{ctx.command_path}`\n\n{_words(command)}\n\n"
    yield f"```\n{ctx.command_path} {usage}\n```\n"
    rows = [
        record
        for parameter in command.params
        if isinstance(parameter, click.Option)
        and parameter.name != "output"  # on nearly every command; said above
        and (record := parameter.get_help_record(ctx)) is not None
    ]
    if rows:
        yield "\n| option | |\n| --- | --- |\n"
        for names, text in rows:
            yield f"| `{names.replace('|', '/')}` | {text.replace('|', '/')} |\n"


def _policies(group: PolicyGroup, ctx: click.Context) -> Iterator[str]:
    """One row a policy: its three commands differ by the first word, and only one has options."""
    if not group.table:
        yield "\nThe commands of policies that `milepost topics` has, by the same words.\n"
        return
    yield f"\n#### Policies: `{ctx.command_path} get-…`, `set-…`, `remove-…`\n\n"
    yield f"```\n{ctx.command_path} set-POLICY [OPTIONS] {group.level.upper()}\n```\n"
    if group.level == "topic":
        yield "\n`get-…` takes `-ap`, `--applied`: what holds, whichever level has set it.\n"
    yield "\n| policy | options of `set-…` | |\n| --- | --- | --- |\n"
    for word, meaning in group.policies():
        made = group.get_command(ctx, f"set-{word}")
        assert made is not None, word
        options = [
            f"`{', '.join(sorted(one.opts, key=len))}`"
            for one in made.params
            if isinstance(one, click.Option)
            and not one.hidden
            and one.name != "output"
            and one.expose_value
        ]
        yield f"| `{word}` | {', '.join(options)} | {meaning} |\n"


def _words(command: click.Command) -> str:
    text = " ".join((command.help or "").split())
    return text if text.endswith((".", "`")) else f"{text}."


if __name__ == "__main__":
    click.echo(page(), nl=False)
