"""The controller of ColocationConfigurations."""
