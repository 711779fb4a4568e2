"""Commands about progress: progress, seek, subscriptions, explain; and how people write a place.

describe       `milepost topics describe`, `subscriptions describe`: pages for people, with strips
explain        `milepost explain`: what an id or an index means, and where it lies
losses         dry runs of commands that delete: how much would be gone
moves          tells what a reset did or would do
places         parses places in a topic: an index, an id, a time, earliest, latest
progress       `milepost progress`: the progress of every group, trouble first
seek           `milepost seek`: resets a subscription
strip          the strip of a subscription in characters
subscriptions  `milepost subscriptions`: lists, shows, creates, deletes; who reset them
top            `milepost top`: numbers and groups in trouble, live
"""
