"""Writing: rows to topics, once or at least once.

keyed         which bucket a row is in, and which number it has there
publish       rows to batches, receipts awaited, numbers that make a repetition harmless
sink          rows to topics, once or at least once
target_topic  asked for everything that can refuse before the first message
"""
