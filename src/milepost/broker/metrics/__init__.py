"""Counts and rates that the broker keeps of itself. They only count; `rest/metrics/` shows them.

counters             the counters of the broker: every number that only grows
histogram            the histogram of one kind of value, over the last whole period
rates                rates per second of topics, producers, subscriptions and consumers
samples              samples of the last minute of a subscription, from which verdicts judge its pace
subscription_counts  the counts of one subscription: delivered, acked, redelivered, and when last
"""
