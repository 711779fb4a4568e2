"""Resources: one router a resource, in the paths and words of Pulsar's admin API.

auth_policies      the `auth_policies` inside the policies document of a namespace
backlogs           the backlog of a subscription, analysed
broker_config      the settings of the broker: shown, and changed while it runs
broker_stats       the stats of all open topics and namespaces of a broker
brokers            lists brokers; health, readiness, version, leader
browser            messages for people to read: from an index, id or time on, filtered
bundles            the bundles of a namespace: lists, splits, unloads and clears them
clusters           clusters: there is one, and this broker is it
compaction         starts the compaction of a topic, and shows its state
cursors            resets in upstream's own paths, by time and by position
internal_info      what the catalog knows of a topic: ledgers, cursors, creation
lookup             HTTP lookup: which broker serves a topic
maintenance        unloads, terminates, truncates and trims topics; lost entries; sizes of backlogs
message_ids        message ids by index and back (PIP-415), by time, and the last one
messages           peeks: messages by id, by count, and the next ones of a subscription
namespaces         lists, creates, shows and deletes namespaces
offload            offloading: what upstream answers when there is no offload store
older_paths        upstream's older paths, answered by the routes of the newer ones
overview           what a person sees first: numbers, what is in trouble, topics to search
permissions        grants of roles on namespaces and subscriptions
policies           gets, sets and removes policies of namespaces and topics
progress           progress and verdicts of subscriptions, trouble first
replication        replication: accepts this cluster, refuses any other
reset              resets of a subscription: dry run, check, history
resource_groups    resource groups, and the one that a namespace is in
rights             who is asking, what that role may do, and which policies hold where
schemas            the versions of a topic's schema: registered, looked up, compared, deleted
stats              the stats of topics and partitioned topics, and internal stats
stats_models       the JSON fields of the stats: begin here to add one
strips             the strip of a subscription: which indexes are in which state
subscriptions      lists, creates, deletes, skips and expires subscriptions; their properties
tenants            lists, creates, changes and deletes tenants
topic_permissions  grants of roles on topics
topics             lists, creates and deletes topics; partitions, properties
transactions       transactions as an operator sees them: which are open, whose, on what; their abort
"""
