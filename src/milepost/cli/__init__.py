"""The command line: runs the broker, and operates it or an Apache Pulsar cluster.

`main.py` names the commands and loads one when it is called, so that help costs little more than
Python's own start. Which broker a command talks to is `connection.py`'s, how results look `output.py`'s,
what a place in a topic is called `places.py`'s. What goes wrong is one line and an exit code
(`exits.py`, `remote.py`), never a traceback.
"""
