"""The search for victims, on a node and over a domain."""
