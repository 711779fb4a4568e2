"""Operations: what operators, policies and the clock do to topics and subscriptions.

backlog_quota       is a topic past one, and what would bring it below? Decisions, no effects
broadcast_members   members of broadcast groups come, are remembered, and are forgotten
compaction_run      a topic is read once, beside its traffic, and what of it is kept becomes durable
housekeeping        at intervals, do what retention, expiry and quotas ask for
policy_enforcement  hands policies to open topics, and does at intervals what they ask for
reset               an operator moves a subscription, connected consumers or not
retention           which ledgers may go
skipping            an operator declares messages done that no consumer has acked
topic_lifecycle     what operators do to topics
"""
