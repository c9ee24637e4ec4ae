"""Replay: a recording's input goes through the engine again, and its output is compared."""
