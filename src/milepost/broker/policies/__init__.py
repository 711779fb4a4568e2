"""Policies: what may be set for a namespace or a topic, each declared once. Pure values and decisions.

`table.py` is the list; the routes, the commands and the documentation are made from it. What holds for a
topic is computed once a change (`effective.py`) and handed to it.

book       what every namespace and topic has set, in memory as in the catalog
document   all of its policies at once, by the names that upstream's document has
effective  what holds for one topic, as typed values
elsewhere  other clusters, other storage, filters in Java
kept       policies that are kept and answered for those who ask, and on which nothing in this broker
policy     what it is called, what it may be, where it can be set and what holds when it is not
reference  the page about policies, made from the table of policies
shapes     what the JSON of a policy may be, and the words for it
table      each one declared once, with upstream's routes, JSON and defaults
"""
