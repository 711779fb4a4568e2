"""Transactions: which are open, what belongs to each, and what their end means. Decisions, no effects.

coordinator         the transactions that are open or have ended: their topics, time-outs and outcomes
series              series of transactions: work in numbered steps, each of which is committed once
topic_transactions  what transactions have written to one topic, and acked on its subscriptions
"""
