"""Commands that ask a running core: schedule, explain, show, top and watch."""

import os

# What goes wrong is said in a line of ours; gRPC, which reads this when it is imported, would add
# its own.
os.environ.setdefault("GRPC_VERBOSITY", "NONE")
