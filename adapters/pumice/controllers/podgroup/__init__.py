"""The controller that creates PodGroups for pods without one."""
