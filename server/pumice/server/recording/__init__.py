"""Recording: the input and output of a core, written to files and to callers of Record."""
