"""A million changes of pods through a real adapter into a real core: `make soak`.

Says every now and then how much memory both use. At the end the core must hold what the fake API
server holds, no digest may have differed, and memory must not have grown with the changes.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import re
import sys
import tempfile
import time
import urllib.request
from dataclasses import dataclass, field
from pathlib import Path

from pumice.client import AsyncClient, ClientSettings
from pumice.client.errors import OUTAGES
from tests.controlplane.processes import free_ports
from tests.controlplane.scheduler import Child
from tests.soak.server import FakeApiServer

_SAMPLES = 40
# Longer than the core's interval between digests.
_DIGEST_SECONDS = 35.0
_SETTLE_SECONDS = 60.0
_GROWTH = 1.15
_SLACK_BYTES = 24 << 20


@dataclass(slots=True)
class Soak:
    """What one run found out."""

    seconds: float = 0.0
    # In bytes, as time goes by.
    adapter_memory: list[int] = field(default_factory=list)
    core_memory: list[int] = field(default_factory=list)
    drift: int = 0
    relists: int = 0
    pods: int = 0
    problems: list[str] = field(default_factory=list)

    def judge_memory(self, name: str, samples: list[int]) -> None:
        """The second half against what it was after the first tenth."""
        early = max(samples[: max(1, len(samples) // 10)])
        late = max(samples[len(samples) // 2 :])
        if late > early * _GROWTH + _SLACK_BYTES:
            self.problems.append(f"memory of the {name} grew from {early} to {late} bytes")


async def soak(
    events: int, population: int, nodes: int, folder: Path, *, waits_for_digest: bool
) -> Soak:
    found = Soak()
    async with FakeApiServer(nodes, population, events) as server:
        core_port, adapter_port = free_ports(2)
        address = f"unix:{folder / 'core.sock'}"
        core = Child.start(
            folder / "core.log",
            *("core", "--listen", address, "--metrics-address", f"127.0.0.1:{core_port}"),
        )
        adapter = Child.start(
            folder / "adapter.log",
            *("adapter", "kubernetes", "--core", address, "--leader-elect=false"),
            *("--kubeconfig", str(_kubeconfig(folder, server.url)), "--make-queues=false"),
            *("--enable-metrics=true", f"--listen-address=127.0.0.1:{adapter_port}"),
        )
        try:
            await _run(server, core, adapter, found)
            await _until_equal(server, address, found)
            if waits_for_digest:
                await asyncio.sleep(_DIGEST_SECONDS)
            found.drift = await _metric(core_port, "pumice_drift_total")
            found.relists = await _metric(adapter_port, "relists_total")
        finally:
            await asyncio.to_thread(adapter.stop)
            await asyncio.to_thread(core.stop)
    found.pods = len(server.pods)
    if found.drift:
        found.problems.append(f"{found.drift} digests differed")
    if server.breaks > 1 and not found.relists:
        found.problems.append("no watch had to be begun anew")
    return found


async def _run(server: FakeApiServer, core: Child, adapter: Child, found: Soak) -> None:
    began = time.monotonic()
    step = server.events // _SAMPLES
    while not server.finished.is_set():
        await asyncio.sleep(0.1)
        for child in (core, adapter):
            if child.process.poll() is not None:
                raise RuntimeError(f"{child.log.name} ended:\n{child.said[-2000:]}")
        if server.told < step * (len(found.core_memory) + 1):
            continue
        found.core_memory.append(memory_of(core))
        found.adapter_memory.append(memory_of(adapter))
    found.seconds = time.monotonic() - began


async def _until_equal(server: FakeApiServer, address: str, found: Soak) -> None:
    """What the core knows of nodes against what is there."""
    wanted, held = server.counts(), dict[str, int]()
    settings = ClientSettings(address, "kubernetes", timeout_seconds=10, retry_seconds=0)
    end = time.monotonic() + _SETTLE_SECONDS
    async with AsyncClient(settings) as client:
        while time.monotonic() < end:
            try:
                held = {node.name: node.pod_count for node in await client.list_nodes()}
            except OUTAGES:
                held = {}
            if held == wanted:
                return
            await asyncio.sleep(0.5)
    wrong = [name for name in wanted if held.get(name) != wanted[name]]
    found.problems.append(f"the core is wrong about the pods of {len(wrong)} nodes: {wrong[:5]}")


async def _metric(port: int, name: str) -> int:
    """The sum of all series whose name ends so."""

    def read() -> str:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as answer:
            return str(answer.read().decode())

    text = await asyncio.to_thread(read)
    values = re.findall(rf"^\w*{name}(?:\{{.*\}})? ([0-9.e+]+)$", text, re.MULTILINE)
    return sum(int(float(value)) for value in values)


def memory_of(child: Child) -> int:
    text = Path(f"/proc/{child.process.pid}/status").read_text()
    match = re.search(r"VmRSS:\s+(\d+) kB", text)
    return int(match[1]) * 1024 if match else 0


def _kubeconfig(folder: Path, server: str) -> Path:
    content = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "soak",
        "clusters": [{"name": "soak", "cluster": {"server": server}}],
        "contexts": [{"name": "soak", "context": {"cluster": "soak", "user": "soak"}}],
        "users": [{"name": "soak", "user": {}}],
    }
    path = folder / "kubeconfig.json"
    path.write_text(json.dumps(content))
    return path


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--events", type=int, default=1_000_000)
    parser.add_argument("--pods", type=int, default=5000)
    parser.add_argument("--nodes", type=int, default=200)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="pumice-") as folder:
        work = soak(given.events, given.pods, given.nodes, Path(folder), waits_for_digest=True)
        found = asyncio.run(work)
    found.judge_memory("adapter", found.adapter_memory)
    found.judge_memory("core", found.core_memory)
    shown = {
        "soak": "watching",
        "events": given.events,
        "seconds": round(found.seconds, 1),
        "events_per_second": round(given.events / found.seconds),
        "adapter_mib": [round(one / 2**20) for one in found.adapter_memory[:: _SAMPLES // 10]],
        "core_mib": [round(one / 2**20) for one in found.core_memory[:: _SAMPLES // 10]],
        # Memory follows these, and they wander a little.
        "pods_at_the_end": found.pods,
        "relists": found.relists,
        "drift": found.drift,
        "problems": found.problems,
    }
    print(json.dumps(shown))
    return 1 if found.problems else 0


if __name__ == "__main__":
    sys.exit(main())
