"""What a session does, one module an action."""
