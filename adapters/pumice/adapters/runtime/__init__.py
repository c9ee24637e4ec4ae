"""The adapter runtime, written once over the World protocol."""
