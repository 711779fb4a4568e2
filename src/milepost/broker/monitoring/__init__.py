"""Monitoring: numbers and verdicts of one moment. It reads, and changes nothing.

connection_log  a line of the log for each connection, producer and consumer
diagnosis       is a subscription well, and if not, why not
overview        the progress of many subscriptions, trouble first
progress        all numbers of a subscription at one moment, with a verdict
self_check      a message published, stored, delivered and acked, by way of everything that real ones pass
stats           the numbers of a subscription or a topic at one moment
"""
