"""Metrics: the broker's state as Prometheus' text and as JSON.

collector     collects the metrics of the broker and its storage, and reads the table
exposition    writes the text of `/metrics` in slices
json_metrics  the broker's metrics as JSON, at upstream's older paths
rocketmq_metrics  metrics by RocketMQ's names, while its clients are served
metric_table  the table of metrics of topics, subscriptions and consumers: name, help, value
"""
