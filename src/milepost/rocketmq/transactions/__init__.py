"""Transactional messages of RocketMQ producers.

halves           the half messages that are open: when to ask about each, and when to give it up
half_topic       where they are stored until their end, and what is stored of each
transactions     sends, ends and questions: half messages at work
"""
