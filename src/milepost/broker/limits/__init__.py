"""Limits: how much may pass, be held or be asked for, and who waits when it is too much.

connection_limits    how many connections there may be, in all and from one address
memory               the memory limit of the broker: pauses senders, and closes stalled consumers
publish_rate         publish rate limits: pauses the connections of producers that are too fast
resource_groups      rate limits that all topics of several namespaces share
sliced_steps         takes very many small steps in slices: what the broker's tick does
subscribe_rate       subscribe rate limits: how often one consumer may come back within a period
subscription_limits  the limits of one subscription: unacked messages, and how far ahead it looks
time_slices          does long work in short slices, so that live traffic does not wait
token_bucket         a token bucket in messages and bytes: may it pass, and if not, how long to wait
"""
