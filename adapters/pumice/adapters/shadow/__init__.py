"""Shadow mode: compares the decisions of pumice with those of the cluster's own scheduler."""
