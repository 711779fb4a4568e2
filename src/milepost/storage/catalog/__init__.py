"""The catalog: what exists, in one SQLite database.

catalog         the interface of the catalog: tenants, namespaces, topics, ledgers, states, schemas
sqlite_catalog  the catalog in a SQLite database (WAL mode, full sync)
"""
