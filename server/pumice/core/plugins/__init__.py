"""The plugins of a session, one module or package each."""
