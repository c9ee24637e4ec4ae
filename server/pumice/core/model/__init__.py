"""Values that enter, leave and describe the cluster."""
