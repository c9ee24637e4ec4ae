"""Commands that query a core: ``schedule``, ``explain``, ``show``, ``top`` and ``watch``."""

import os

# gRPC reads this when it is imported; otherwise it would add lines of its own to our errors.
os.environ.setdefault("GRPC_VERBOSITY", "NONE")
