"""The command line: runs the broker, and operates it or an Apache Pulsar cluster.

`main.py` names the commands and loads one when it is called, so that help costs little more than
Python's own start. Which broker a command talks to is `connection.py`'s, how results look `output.py`'s,
what a place in a topic is called `places.py`'s. What goes wrong is one line and an exit code
(`exits.py`, `remote.py`), never a traceback.

admin/       one file a group of commands
bars         a progress bar for a person at a terminal
completion   what a shell must be told so that Tab completes commands and options
connection/  which broker a command talks to, and as whom
exits        exit codes, and the one line that goes with each
groups       groups of commands that load a command when it is called, and answer a wrong name with a
input_files  read whole, refused in one way
java         is there one that Spark can use? Asked before Spark is started, which would say it at length
main         finds the command that was asked for, and loads only that one
manual       the page about the command line, made from the commands themselves
messages/    produce, consume, peek, perf
output       how results look: as pulsar-admin prints them, or as a table, JSON or CSV
pipeline     topics into lakes and back, by Spark
progress/    progress, seek, subscriptions, explain
quantities   durations, sizes and times as people write them on a command line
server/      serve, config, verify
tour/        the tour of `milepost demo`
version      what is installed, for a bug report
"""
