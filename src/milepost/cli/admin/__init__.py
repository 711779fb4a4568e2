"""Commands in pulsar-admin's words: one file a group of commands.

admin_group          what `pulsar-admin` has, by its names
brokers              the grammar of `pulsar-admin brokers`
namespace_placement  bundles, clusters, offloading
namespaces           the grammar of `pulsar-admin namespaces`
namespaces_group     which command lives where, and its line in the help
permissions          who may do what with a namespace or a topic, and with a subscription
policy_commands      `get-…`, `set-…` and `remove-…` of each, at its level, in `pulsar-admin`'s grammar
policy_group         groups that have the commands of policies beside their own
policy_options       `pulsar-admin`'s flags, and what of the JSON each one is
resource_groups      the words of `pulsar-admin` for both
schemas              the grammar of `pulsar-admin schemas`
tenants              the grammar of `pulsar-admin tenants`
tokens               keys, and tokens signed with them, in the words of `pulsar tokens`
topic_messages       peek, examine, ids by index and time, sizes
topic_placement      replication and offloading, in the words of `pulsar-admin topics`
topic_subscriptions  create, delete, skip, expire, reset
topics               the grammar of `pulsar-admin topics`, word for word
topics_group         pulsar-admin's names, and where each lives
"""
