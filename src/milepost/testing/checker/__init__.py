"""One judge for every history: what clients asked, were told and received, and what is wrong with it.

    history = History()                                  # or History(path): JSON lines, a line an event
    sent = history.invoke("publish", topic="t", message="a", by="p")
    history.ok(sent, id=[3, 0, -1], index=0)
    history.note("receive", topic="t", sub="s", message="a", id=[3, 0, -1], index=0)
    assert judge(history.lines()).anomalies == []

On the command line: `python -m milepost.testing.checker FILE`. docs/reliability.md has the format.

__main__        the command
checker         takes events one by one and has the verdict at the end
columns         arrays with a value for each message
events          the format: lines to events, each checked
history         writes one, from as many threads as there are
messages        what a topic holds: lost, duplicated, reordered, phantom, misplaced
requests        acks and seeks of which the answer, or the effect, may still come
session         one consumer, and since when what it receives was sent
subscription    what a subscription was shown: after acks, seeks and resets, and by key
transactions    all or nothing, never before the commit, never after an abort
verdict         the anomalies by name, each with the lines that show it
"""

from milepost.testing.checker.checker import Checker, judge, judge_events, judge_file
from milepost.testing.checker.events import BadHistory
from milepost.testing.checker.history import EventHistory, History, merged
from milepost.testing.checker.verdict import Anomaly, Verdict

__all__ = [
    "Anomaly",
    "BadHistory",
    "Checker",
    "EventHistory",
    "History",
    "Verdict",
    "judge",
    "judge_events",
    "judge_file",
    "merged",
]
