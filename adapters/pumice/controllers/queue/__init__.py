"""The controller of queues."""
