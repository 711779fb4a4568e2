"""Commands about progress: progress, seek, subscriptions, explain; and how people write a place.

explain        what an id or an index is, and where it lies
losses         how much would be gone, told from statistics and without changing a thing
moves          what a reset did or would do, told: from where, to where, how many again, how many skipped
places         an index, an id, a time, the beginning, the end
progress       how far every group is, trouble first
seek           move a subscription while its consumers live, and say what that does
subscriptions  progress at a glance, and the changes an operator makes to it
"""
