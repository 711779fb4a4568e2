"""Who is there, and what may they do.

Authentication turns credentials into a role (`tokens.py`, `passwords.py`, `certificates.py`);
authorisation judges a role's operation on a tenant, namespace or topic (`authorizer.py`, by the grants
of `grants.py`). Both are plain functions of what they are given; files are read by `files.py` alone.
What each command and each route needs is one word of `operations.py`, beside its handler.

authenticator  credentials in, an identity out
authorizer     may this role do that to this object?
certificates   the role is the subject's common name
credentials    one connection's proof of who it is, and what becomes of it when it expires
files          keys, passwords and certificates, read again when they change
grant_book     the grants of every namespace, in memory and in the catalog
grants         what the roles of one namespace may do there
keys           keys that sign and verify tokens, and the algorithms that each stands for
operations     what a command or a route asks for, in the words by which rights are judged
passwords      the lines of an htpasswd file, as Apache's tool writes them
roles          the names by which clients are known once they have proved something
security       the authenticator, the authorizer and TLS of one broker, made from its settings
tls            what the encrypted listeners show their clients, replaced when its files change
tokens         JSON Web Tokens, judged by one key and the time it is now
"""
