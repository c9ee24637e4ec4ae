"""A recording as a world: what was told to a core once is told to a live one."""
