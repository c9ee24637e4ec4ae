"""A world that is watched and decided on, and never touched: pumice beside another scheduler."""
