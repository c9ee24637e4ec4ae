"""Regular expressions with Go's syntax, for the engine and for controllers."""
