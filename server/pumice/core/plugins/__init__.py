"""What a session weighs, one module a plugin."""
