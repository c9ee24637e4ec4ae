"""Records the input and output of a core, into files and for callers of Record."""
