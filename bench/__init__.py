"""Benchmarks: what the product promises in numbers, measured."""
