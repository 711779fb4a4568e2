"""Policies: what may be set for a namespace or a topic, each declared once. Pure values and decisions.

`table.py` is the list; the routes, the commands and the documentation are made from it. What holds for a
topic is computed once a change (`effective.py`) and handed to it.

accepted_only  policies that are accepted, stored and shown, and have no effect in Milepost
book           the policies that namespaces and topics have set, in memory and in the catalog
document       the policies of a namespace as one JSON document, in upstream's names
effective      the policies that hold for one topic: its own, its namespace's, or the default
policy         one policy: its name, JSON type, levels and default (class Policy)
reference      makes docs/policies.md from the table
shapes         the JSON types of policies, and their checks
table          the table of policies: begin here to add one
"""
