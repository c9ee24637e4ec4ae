"""Benchmarks on generated clusters, with one JSON line for each result."""
