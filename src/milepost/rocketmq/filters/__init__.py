"""Filters: which messages of a topic a poll wants.

expressions  a filter as a client gives it: tags, or an expression of SQL92
sql          expressions of SQL92 over the properties of a message
"""
