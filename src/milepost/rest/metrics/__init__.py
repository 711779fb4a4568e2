"""Metrics: the broker's state as Prometheus' text and as JSON.

broker_metrics  for tools that came before Prometheus
exposition      the text of `/metrics`, made a little at a time
metrics         read from the broker's state when it is asked for, and not before
rows            names, what they mean, and how each is read from a topic, subscription or consumer
"""
