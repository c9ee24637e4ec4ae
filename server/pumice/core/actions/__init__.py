"""The actions of a session, one module each."""
