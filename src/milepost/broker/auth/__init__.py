"""Who is there, and what may they do.

Authentication turns credentials into a role (`tokens.py`, `passwords.py`, `certificates.py`);
authorisation judges a role's operation on a tenant, namespace or topic (`authorizer.py`, by the grants
of `grants.py`). Both are plain functions of what they are given; files are read by `files.py` alone.
What each command and each route needs is one word of `operations.py`, beside its handler.
"""
