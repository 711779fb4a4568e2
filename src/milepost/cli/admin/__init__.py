"""Commands in pulsar-admin's words: one file a group of commands.

admin_group          `milepost admin`: the groups of pulsar-admin
brokers              `milepost brokers`: health, version, dynamic settings
namespace_placement  `milepost namespaces`: bundles, clusters, offloading
namespaces           `milepost namespaces`: list, create, delete, unload, clear-backlog, properties
namespaces_group     the table of all commands of `milepost namespaces`
permissions          commands that grant, revoke and show permissions
policy_commands      makes the get-, set- and remove- commands of each policy from the table of policies
policy_group         adds the commands of policies to a group
policy_options       the options of the set- command of each policy, and the JSON they become
resource_groups      `milepost resourcegroups` and `milepost broker-stats`
schemas              `milepost schemas`
tenants              `milepost tenants` and `milepost clusters`
tokens               `milepost tokens`: makes keys, signs and checks tokens
topic_messages       `milepost topics`: peek, examine, ids by index and time, sizes
topic_placement      `milepost topics`: replication and offloading; `milepost non-persistent`
topic_subscriptions  `milepost topics`: create, delete, skip, expire and reset subscriptions
topics               `milepost topics`: list, create, delete, partitions, stats, lookup, unload, compact
topics_group         the table of all commands of `milepost topics`
transactions         `milepost transactions`: which are open, whose, on what topics; their abort
"""
