"""The engine: deltas in, decisions out; no IO, clock, thread, log or environment."""
