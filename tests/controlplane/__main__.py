"""A control plane for the time that a command runs: `python -m tests.controlplane COMMAND…`.

The shipped manifests are applied, KUBECONFIG names an administrator, and CONTROL_PLANE_PIDS lists the
processes of the control plane. Exits with the command's
code; when the control plane cannot be had here, says so and exits with 0.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.controlplane.binaries import why_not
from tests.controlplane.client import Client
from tests.controlplane.credentials import ADMIN
from tests.controlplane.manifests import apply_all
from tests.controlplane.processes import ControlPlane, running

# Nothing but the machine limits how much a benchmark may ask for.
_OPTIONS = (
    "--enable-priority-and-fairness=false",
    "--max-requests-inflight=3000",
    "--max-mutating-requests-inflight=1000",
)


async def _prepare(plane: ControlPlane) -> None:
    async with Client(plane.server, plane.credentials) as client:
        await apply_all(client)


def main(command: list[str]) -> int:
    if not command:
        print(__doc__, file=sys.stderr)
        return 2
    reason = why_not()
    if reason is not None:
        print(f"skip: {reason}", file=sys.stderr)
        return 0
    with (
        tempfile.TemporaryDirectory(prefix="pumice-") as folder,
        running(Path(folder), _OPTIONS) as plane,
    ):
        asyncio.run(_prepare(plane))
        kubeconfig = plane.credentials.kubeconfig(plane.server, ADMIN)
        pids = ",".join(map(str, plane.pids))
        environment = {**os.environ, "KUBECONFIG": str(kubeconfig), "CONTROL_PLANE_PIDS": pids}
        return subprocess.run(command, env=environment, check=False).returncode


sys.exit(main(sys.argv[1:]))
