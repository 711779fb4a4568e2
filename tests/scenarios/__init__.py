"""Dialogues with a broker: commands, a line of dashes, and what the broker says."""
