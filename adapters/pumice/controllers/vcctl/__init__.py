"""Commands for Jobs, queues and other objects of a cluster, with the flags and the output of vcctl."""
