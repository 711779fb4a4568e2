"""Operations: what operators, policies and the clock do to topics and subscriptions.

backlog_quota       decides whether a topic is over its backlog quota, and what brings it below
broadcast_members   members of broadcast groups: joined, remembered over restarts, forgotten
compaction_run      runs a compaction: reads the topic, stores which messages are kept
housekeeping        the regular jobs: expiry, quotas, trimming, compaction, deletion of what is unused
leases              acks and releases single messages by index, for clients that hold them for a time
losses              what a topic has lost, and how it goes on without that when an operator accepts it
moving              publishes a message and acks another, in one record
partition_growth    gives a partitioned topic more partitions, and each of them its subscriptions
policy_enforcement  hands policies to topics when they open or change, and starts the regular jobs
recalling           hides a delayed message that its producer calls back
reset               resets: an operator moves a subscription, with consumers connected or not
retention           decides which ledgers retention lets go
skipping            skips and expires: acks messages that no consumer has acked
topic_lifecycle     creates, unloads, terminates, truncates, trims and deletes topics
transactions        opens transactions, adds to them, ends them
unasked_ends        ends transactions whose time is over, or whose run of a series is
"""
