"""The sharding controller: divides the nodes among schedulers."""
