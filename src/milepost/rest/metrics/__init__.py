"""Metrics: the broker's state as Prometheus' text and as JSON.

broker_metrics  the broker's metrics as JSON, at upstream's older paths
exposition      writes the text of `/metrics` in slices
metrics         collects the metrics of the broker, its storage and its topics
rows            the table of metrics of topics, subscriptions and consumers: name, help, value
"""
