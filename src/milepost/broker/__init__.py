"""The broker: topics and their steps. Positions, cursors, wire and storage meet here.

Decisions are plain functions on one loop and never suspend, so a step is atomic and there is no lock;
what blocks is awaited around them. Start reading at topic.py (publish) and subscription.py (dispatch,
ack, seek); handlers/ has one file a command family, and its file list is the protocol coverage.
"""
