"""The adapter in Go, which was written from the page about the protocol, works with a real core."""

import asyncio
import os
import shutil
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from pumice.server.server import CoreServer, ServerOptions
from pumice.v1 import inspection_service_pb2 as pb
from pumice.v1 import inspection_service_pb2_grpc
from pumice.v1.group_pb2 import POD_GROUP_PHASE_RUNNING
from tests.examples.test_frontends import ROOT, copied, run

_MINUTES = 5
pytestmark = [pytest.mark.slow, pytest.mark.timeout(60 * _MINUTES)]


@asynccontextmanager
async def core_at(address: str) -> AsyncIterator[CoreServer]:
    server = CoreServer(ServerOptions(address))
    await server.start()
    try:
        yield server
    finally:
        await server.stop()


class GoAdapter:
    """The running program."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process
        self.log: list[str] = []

    async def job(self, name: str, size: int) -> list[str]:
        """Creates a job; what the program prints until all its pods are bound."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(f"job {name} {size}\n".encode())
        lines: list[str] = []
        while len(lines) < size:
            line = await asyncio.wait_for(self.process.stdout.readline(), 60)
            assert line, "the adapter ended"
            lines.append(line.decode().strip())
        return lines


async def built(tmp_path: Path) -> Path:
    if shutil.which("go") is None:
        pytest.skip("the go command is not installed")
    folder = copied("adapter-go", tmp_path)
    protoc = f"{sys.executable} -m grpc_tools.protoc"
    await run(folder, "./generate.sh", str(ROOT / "proto"), str(folder), PROTOC=protoc)
    await run(folder, "go", "mod", "tidy")
    await run(folder, "go", "vet", "./...")
    await run(folder, "go", "build", "-o", "adapter", ".")
    return folder / "adapter"


@asynccontextmanager
async def adapter_of(program: Path, address: str) -> AsyncIterator[GoAdapter]:
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(
        program, env={**os.environ, "PUMICE_ADDRESS": address}, stdin=pipe, stdout=pipe
    )
    try:
        yield GoAdapter(process)
    finally:
        assert process.stdin is not None
        process.stdin.close()
        try:
            await asyncio.wait_for(process.wait(), 10)
        except TimeoutError:
            process.kill()
            await process.wait()


async def jobs(address: str) -> dict[str, pb.JobInfo]:
    from grpc.aio import insecure_channel

    async with insecure_channel(address) as channel:
        stub = inspection_service_pb2_grpc.InspectionServiceStub(channel)
        answer = await stub.ListJobs(pb.ListJobsRequest(cluster="go"))
        return {job.name: job for job in answer.jobs}


async def test_it_has_its_pods_bound_and_survives_a_restart_of_the_core(tmp_path: Path) -> None:
    program = await built(tmp_path)
    address = f"unix:{tmp_path}/core.sock"
    # The core is not there yet: the adapter waits for it.
    async with adapter_of(program, address) as adapter:
        async with core_at(address):
            assert await adapter.job("first", 2) == [
                "bound team/first-0 to n1",
                "bound team/first-1 to n1",
            ]
            # The status that the core wrote came back: the core shows what the adapter wrote.
            while (await jobs(address))["first"].phase != POD_GROUP_PHASE_RUNNING:
                await asyncio.sleep(0.1)
        async with core_at(address) as again:
            # A gang that needs what is left on both nodes: the new core knows the first one.
            lines = await adapter.job("second", 6)
            assert sorted(line.split()[1] for line in lines) == [
                f"team/second-{number}" for number in range(6)
            ]
            assert sorted(line.split()[3] for line in lines) == ["n1"] * 2 + ["n2"] * 4
            seen = await jobs(address)
            assert seen["first"].running_count == 2
            served = again._clusters.find("go").served
            assert not served.state.quarantined
            assert served.pause is None
        assert adapter.process.returncode is None
