"""Commands that query a core: ``schedule``, ``explain``, ``show``, ``top`` and ``watch``."""

import os

# gRPC reads this when it is imported. Without it, gRPC would print its own lines besides our errors.
os.environ.setdefault("GRPC_VERBOSITY", "NONE")
