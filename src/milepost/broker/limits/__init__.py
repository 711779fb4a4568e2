"""Limits: how much may pass, be held or be asked for, and who waits when it is too much.

connection_limits    how many there may be, in all and from one address, over every port
memory               the memory bound, and who waits when it is reached
publish_rate         producers that are too fast are not read until their time has come
resource_groups      rates that all topics of some namespaces share, in and out
subscribe_rate       how often one consumer may come back within a period
subscription_limits  what a subscription obeys, from the broker's settings and its topic's policies
time_slices          long work beside live traffic, a little at a time
token_bucket         how much may pass now, by messages and by bytes, and how long to wait when nothing
"""
