"""The HyperNode controller."""
