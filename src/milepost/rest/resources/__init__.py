"""Resources: one router a resource, in the paths and words of Pulsar's admin API.

auth_policies      upstream's `auth_policies`, read and written
backlogs           what a subscription has not acked, looked through
broker_config      what they are, and those that change while it runs
broker_stats       what a broker has open, over REST: its topics with their numbers, and the namespaces
brokers            which there are, and whether this one is well, for people and load balancers
bundles            what is done to all topics of a namespace, or to those of one bundle of it
clusters           there is one, and this broker is it
compaction         start it, and ask how it goes
cursors            upstream's own paths for what `reset.py` does, by time and by position
internal_info      what the catalog knows of a topic, over REST: its ledgers, its cursors, and since
lookup             which broker serves a topic, for clients given an `http://` service URL
maintenance        unload, terminate, truncate, trim, and what a backlog weighs
message_ids        by index and back (PIP-415), by time, and the last one
messages           by id, by count, and the next ones of a subscription
namespaces         lists, making, deleting, and what is known of one
offload            there is no store to offload to, and what upstream answers without one
older_paths        what they ask is answered elsewhere under newer names
permissions        what roles are granted on namespaces and subscriptions
policies           get, set and remove each one, of a namespace and of a topic
progress           of every subscription, of a namespace, of one topic
replication        what is said of this cluster is taken, of any other refused
reset              an operator moves a subscription, and looks at who moved it before
resource_groups    resource groups over REST, and which one a namespace is in
schemas            a topic's versions, registered, looked up, compared and deleted
stats              of a topic, of all partitions of one, and what lies where
stats_models       upstream's names, all of them, and ours beside them
subscriptions      list, create, delete, properties, skip, expire
tenants            who shares this broker, and who administers each
topic_permissions  of one, and of many of a namespace at once
topics             lists, making, partitions, properties, deleting
"""
