"""Which broker a command talks to, and as whom.

connection  the options of every command that asks a broker: URLs, TLS, credentials; and their order
context     `milepost context`: named brokers
contexts    the file of named brokers
offers      what Tab offers: names that the broker knows, contexts, settings
remote      runs a command against a broker, and tells its refusals
"""
