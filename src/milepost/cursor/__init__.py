"""The pure state machine of one subscription's progress. Begin with `cursor.py`."""
