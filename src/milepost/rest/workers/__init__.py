"""Requests where several workers serve as one broker: any of them answers all.

everywhere  answers of all workers to one request, made into one
exchange    a request and its answer as values, to be carried from worker to worker
forwarding  takes a request to the worker that has its topic, or to all of them
metrics     the metrics of all workers as one text
"""
