"""Places tasks on nodes: statements, the moves they make, and the decisions they commit."""
