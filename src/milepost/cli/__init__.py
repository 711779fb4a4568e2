"""The command line: `milepost serve`, `milepost config show`, and more to come.

`main.py` names the commands and loads one when it is called, so that help costs little more than
Python's own start. What goes wrong is one line and an exit code (`exits.py`), never a traceback.
"""
