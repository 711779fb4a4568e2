"""Counts and rates that the broker keeps of itself. They only count; `rest/metrics/` shows them.

counters             what the broker counts: plain numbers that only grow, since this process began
histogram            a histogram of one kind of value, over the last whole period
rates                how fast the counts of topics, producers, subscriptions and consumers grew lately
samples              how fast a subscription is consumed, from a few samples of the last minute
subscription_counts  what went through a subscription since it was opened, and when something last did
"""
