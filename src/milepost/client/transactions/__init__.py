"""Transactions: messages and acks that count together, or not at all.

coordinators  asks transaction coordinators, and comes back to them after a lost connection
transaction   `Transaction`: what takes part in one, and its end
"""
