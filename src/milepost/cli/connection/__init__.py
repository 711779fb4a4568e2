"""Which broker a command talks to, and as whom.

connection  which broker a command talks to, and as whom: flags, environment, client.conf, contexts
context     names for the brokers that you work with
contexts    names for the brokers that a person works with, in one file of their own
remote      their common options, and how its refusals are told
"""
