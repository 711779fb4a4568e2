"""Fuzzing: bytes that were almost right, for everything that reads bytes from outside or from a disk."""
