"""The directory: what exists. Tenants, namespaces, topics, bundles, schemas, and who watches them.

bundles          the ranges of hashes into which a namespace's topics fall
directory        what exists
schema_registry  versions of every topic's schema, stored before a client is told of them
topic_watchers   clients that hear of a namespace's topics as they come and go (PIP-145)
"""
