"""The controller of Jobs: creates their PodGroups and pods, and follows their lifecycle."""
