"""Kubernetes JSON and YAML to the wire: the only code that reads a Pod."""
