"""Commands for Jobs, queues and other objects of a cluster, as users of vcctl know them."""
