"""The directory: what exists. Tenants, namespaces, topics, bundles, schemas, and who watches them.

bundles          the bundles of a namespace: ranges of hashes into which its topics fall
directory        the tenants, namespaces, topics and partition counts that exist, in memory
schema_registry  the versions of every topic's schema, stored before a client is told of them
topic_watchers   clients that are told when topics of a namespace come and go (PIP-145)
"""
