"""The catalog: what exists, in one SQLite database.

catalog         what exists
sqlite_catalog  a SQLite database in WAL mode with full sync
"""
