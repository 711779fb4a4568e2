"""Authentication and authorisation: who the client is, and what it may do.

Authentication turns credentials into a role (`tokens.py`, `passwords.py`, `certificates.py`);
authorisation judges a role's operation on a tenant, namespace or topic (`authorizer.py`, by the grants
of `grants.py`). Both are plain functions of what they are given; files are read by `files.py` alone.
What each command and each route needs is one word of `operations.py`, beside its handler.

authenticator  turns the credentials of a client into an identity, or refuses them
authorizer     decides whether a role may do an operation on a tenant, namespace or topic
certificates   TLS client certificates: the role is the common name of the subject
credentials    the credentials of one connection, and what happens when they expire
files          reads key, password and certificate files, again when they change
grant_book     the grants of all namespaces, in memory and in the catalog
grants         the grants of one namespace: what each role may do there
keys           the keys that sign and verify tokens, and the algorithms of each
operations     the operations that commands and routes need the right for
access_keys    RocketMQ's access keys and the signatures made with their secrets
passwords      basic authentication: the lines of an htpasswd file
roles          role names: which are valid, and which wildcard matches which
security       builds the authenticator, the authorizer and TLS from the settings
tls            the TLS contexts of the listeners, replaced when their files change
tokens         checks JSON Web Tokens: signature, expiry, audience, role
"""
