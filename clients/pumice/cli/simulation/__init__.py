"""Clusters from files, run through the engine cycle by cycle, and compared with what they expect."""
