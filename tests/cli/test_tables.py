"""Tables of commands at 80 and at 60 columns, and in a pipe."""

import io

import pytest
from rich.console import Console

from pumice.cli.queries.show import _job_table, _node_table, _queue_table, _session_table
from pumice.cli.queries.tables import Column, FittedTable, counted, short_names, used_of
from pumice.cli.queries.top import node_table, queue_table
from pumice.client import Job, Node, Queue, SessionSummary
from pumice.v1.group_pb2 import QUEUE_STATE_CLOSED, QUEUE_STATE_OPEN
from pumice.v1.inspection_service_pb2 import JobInfo, NodeInfo, QueueInfo
from pumice.v1.reason_pb2 import REASON_CODE_NO_NODE_FITS, NodeCount, Reason
from pumice.v1.session_pb2 import QueueShare
from pumice.v1.session_pb2 import SessionSummary as SessionMessage

GIB = 2**30
GPU = "nvidia.com/gpu"


def rendered(table: FittedTable, width: int) -> list[str]:
    out = io.StringIO()
    console = Console(file=out, width=width, force_terminal=True, color_system=None)
    console.print(table.fitted(console, width))
    return [line.rstrip() for line in out.getvalue().splitlines()]


def queues() -> list[Queue]:
    names = ("research", "production-inference", "default", "closed-for-good")
    return [
        Queue.from_proto(
            QueueInfo(
                share=QueueShare(
                    name=name,
                    deserved={"cpu": 1_536_333, "memory": 4096 * GIB, GPU: 128_000},
                    allocated={"cpu": 1_024_500, "memory": 1234 * GIB, GPU: 96_000},
                    share=0.75,
                ),
                state=QUEUE_STATE_CLOSED if name.startswith("closed") else QUEUE_STATE_OPEN,
                weight=3,
                pending_job_count=123,
                inqueue_job_count=45,
                running_job_count=678,
            )
        )
        for name in names
    ]


def nodes() -> list[Node]:
    whole = {"cpu": 128_000, "memory": 1024 * GIB, GPU: 8000}
    used = {"cpu": 96_500, "memory": 700 * GIB, GPU: 7000}
    return [
        Node.from_proto(
            NodeInfo(
                name=f"ip-10-0-{number}-17.eu-central-1.compute.internal",
                allocatable=whole,
                used=used,
                idle={name: whole[name] - used[name] for name in whole},
                pod_count=101,
            )
        )
        for number in range(3)
    ]


def jobs() -> list[Job]:
    why = Reason(
        author="allocate",
        code=REASON_CODE_NO_NODE_FITS,
        task="train-0001-worker-0",
        nodes=[NodeCount(reason="Insufficient cpu", **COUNT)],
    )
    return [
        Job.from_proto(
            JobInfo(
                namespace="team-vision",
                name=f"train-resnet-{number:04}",
                queue="production-inference",
                pending_count=8,
                reasons=[why],
            )
        )
        for number in range(3)
    ]


COUNT = {NodeCount.DESCRIPTOR.fields[1].name: 512}


@pytest.mark.parametrize("width", [80, 60])
def test_no_line_is_wider_than_the_terminal(width: int) -> None:
    tables = [
        queue_table(queues()),
        node_table(nodes(), 15),
        _queue_table(queues()),
        _node_table(nodes()),
        _job_table(jobs()),
        _session_table([SessionSummary.from_proto(SessionMessage(session=123_456))]),
    ]
    for table in tables:
        lines = rendered(table, width)
        assert max(map(len, lines)) <= width
        # No row is broken, but for a column that wraps.
        assert not any(line.startswith(" " * 40) for line in lines if table is not tables[4])


def test_top_is_readable_at_80_columns() -> None:
    lines = rendered(queue_table(queues()), 80)
    assert lines[0].split() == ["queue", "share", "cpu", "memory", "gpu", "pending", "running"]
    assert lines[2].split() == [
        *("research", "75%", "1024/1536", "1234/4096Gi", "96/128", "123", "678")
    ]
    assert lines[-1] == "hidden: inqueue (-o json has all)"
    lines = rendered(node_table(nodes(), 15), 80)
    assert lines[0].split() == ["node", "(3)", "used", "cpu", "memory", "gpu", "pods"]
    assert lines[2].split()[1:] == ["88%", "96.5/128", "700/1024Gi", "7/8", "101"]


def test_top_is_usable_at_60_columns() -> None:
    """CPU, the jobs that wait and names that can be told apart are left."""
    lines = rendered(queue_table(queues()), 60)
    assert {"queue", "share", "cpu", "pending", "running"} <= set(lines[0].split())
    assert any(line.startswith("hidden: ") and "gpu" in line for line in lines)
    assert any("closed" in line for line in lines)
    names = [line.split()[0] for line in rendered(node_table(nodes(), 15), 60)[2:5]]
    assert len(set(names)) == 3
    assert all(name.startswith("ip-10-0-") and name.endswith("…") for name in names)


def test_a_wide_terminal_and_a_pipe_show_everything() -> None:
    lines = rendered(queue_table(queues()), 200)
    assert "inqueue" in lines[0]
    assert not any(line.startswith("hidden") for line in lines)


def test_a_name_keeps_both_its_ends() -> None:
    table = FittedTable(Column("node", shortens=True), Column("why"))
    table.add_row("node-0001-of-a-very-long-pool-name-0017", "x" * 30)
    (row,) = rendered(table, 50)[2:]
    assert row.startswith("node-")
    assert "…" in row
    assert "0017" in row


def test_amounts_are_short() -> None:
    assert used_of({"cpu": 1500}, {"cpu": 64_000}, "cpu") == "1.5/64"
    assert used_of({"memory": 3 * GIB // 2}, {"memory": 64 * GIB}, "memory") == "1.5/64Gi"
    assert used_of({"memory": 2**20}, {"memory": 64 * GIB}, "memory") == "1Mi/64Gi"
    assert used_of({"cpu": 63_499}, {}, "cpu") == "63.5"
    assert used_of({}, {}, "cpu") == "-"
    assert used_of({"cpu": 1_234_567}, {"cpu": 12_345_678}, "cpu") == "1235/12346"


def test_short_names_stay_apart() -> None:
    assert short_names(["cpu", "nvidia.com/gpu"]) == ["cpu", "gpu"]
    assert short_names(["amd.com/gpu", "nvidia.com/gpu"]) == ["amd.com/gpu", "nvidia.com/gpu"]


def test_counts_have_their_plural() -> None:
    assert [counted(n, "bind") for n in (0, 1, 2)] == ["0 binds", "1 bind", "2 binds"]
    assert counted(1, "job waits", "jobs wait") == "1 job waits"
