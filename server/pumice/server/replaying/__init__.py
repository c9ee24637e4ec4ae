"""Replays recordings: the recorded input goes through the engine, and the output is compared."""
