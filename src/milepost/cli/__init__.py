"""The command line: runs the broker, and operates it or an Apache Pulsar cluster.

`main.py` names the commands and loads one when it is called, so that help costs little more than
Python's own start. Which broker a command talks to is `connection.py`'s, how results look `output.py`'s,
what a place in a topic is called `places.py`'s. What goes wrong is one line and an exit code
(`exits.py`, `remote.py`), never a traceback.

admin/       the commands of pulsar-admin: topics, namespaces, policies, tenants, schemas, tokens, …
bars         the progress bar on a terminal
completion   `milepost completion`: Tab completion for shells
connection/  the options that say which broker a command talks to, and `milepost context`
console/     `milepost console`: the console's pages for another Milepost or an Apache Pulsar
exits        the exit codes, and which error has which
figures      figures for people: ages, sizes, short names of topics
groups       command groups that load a command when it is called, and suggest near names
input_files  reads files that a command line names
java         checks that there is a Java that Spark can use
main         `milepost`: the table of commands, and error handling
manual       makes docs/cli.md from the commands
messages/    `milepost produce`, `consume`, `peek`, `perf`
migrate/     `milepost migrate`: topics of another broker, with everything that belongs to them
output       prints results as text, table, JSON or CSV
pipeline     `milepost pipeline`: archive, verify, replay and progress reports, by Spark
progress/    `milepost progress`, `top`, `seek`, `subscriptions`, `explain`
quantities   parses durations, sizes and times
server/      `milepost serve`, `config`, `verify`; settings files, logging, signals
tables       lays out tables for a terminal, however narrow
terminal     how wide the output is, and whether it takes colours
tour/        `milepost demo`
version      `milepost version`
"""
