"""Commands in pulsar-admin's words: one file a group of commands.

admin_group          `milepost admin`: the groups of pulsar-admin
brokers              `milepost brokers`: health, version, dynamic settings
calls                makes a command of one call of the admin client
namespace_placement  `milepost namespaces`: split a bundle, offloading
namespaces           `milepost namespaces`: delete, unsubscribe, clear-backlog
namespaces_group     the table of all commands of `milepost namespaces`
options              parameters that several commands take
permissions          commands that grant, revoke and show permissions
policy_commands      makes the get-, set- and remove- commands of each policy from the table of policies
policy_group         adds the commands of policies to a group
policy_options       the options of the set- command of each policy, and the JSON they become
resource_groups      `milepost resourcegroups` and `milepost broker-stats`
schemas              `milepost schemas`
tenants              `milepost tenants` and `milepost clusters`
tokens               `milepost tokens`: makes keys, signs and checks tokens
topic_list           `milepost topics list`: names for programs, counts and sizes for people
topic_messages       `milepost topics`: peek, examine, ids by index and time, sizes
topic_placement      `milepost topics`: replication and offloading
topic_subscriptions  `milepost topics`: create, delete, skip, expire and reset subscriptions
topics               `milepost topics`: create, delete, truncate, terminate partitions, compact
topics_group         the tables of all commands of `milepost topics` and `milepost non-persistent`
transactions         `milepost transactions`: which are open, whose, on what topics; their abort
"""
