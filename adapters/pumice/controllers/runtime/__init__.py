"""The loop that runs controllers: watches, caches, work queues, and acts on the API server."""
