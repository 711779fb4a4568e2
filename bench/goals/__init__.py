"""The goals of speed: each with its bound, measured on Milepost and on its peers in turns, judged, told.

goals.py        the goals: what is promised, and what is known of why one is missed
figures.py      pure: what was measured, as it lies in the file
judgement.py    pure: a goal and the figures make a row
workloads.py    what is measured, and on which server
servers.py      who is measured: Milepost, Milepost of an earlier commit, Apache Pulsar, Kafka
machine.py      which machine and which commit the figures are of
measure.py      runs the workloads in turns, and keeps the figures in a file
terminal.py     pure: the tables as text
page.py         pure: docs/benchmarks.md
plots.py        pure: bars as SVG
report.py       makes the page and the plots of the file
"""
