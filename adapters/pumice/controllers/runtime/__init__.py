"""The loop of the controllers: caches of watched objects, work queues, and the acts on the API."""
