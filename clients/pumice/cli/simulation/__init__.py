"""Simulation of clusters in files, cycle by cycle, and comparison with the expected decisions."""
