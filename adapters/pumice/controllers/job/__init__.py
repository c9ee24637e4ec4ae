"""The controller of Jobs: makes PodGroups and pods of them, and follows their life cycle."""
