"""What the demo shows: every screen is filled and none overflows."""

from __future__ import annotations

import io
import os
import pty
import subprocess

import pytest
from rich.console import Console

from pumice.cli.demo.processes import last_json
from pumice.cli.demo.state import DecisionLine, DemoState, decision_lines
from pumice.cli.demo.view import plain_line, render
from pumice.client import Job, Node, Queue, Session
from pumice.v1 import reason_pb2
from pumice.v1.decision_pb2 import Bind, Decision, Evict, Gang
from pumice.v1.group_pb2 import POD_GROUP_PHASE_INQUEUE
from pumice.v1.inspection_service_pb2 import JobInfo, NodeInfo, QueueInfo
from pumice.v1.reason_pb2 import Reason
from pumice.v1.session_pb2 import QueueShare, SessionDetail, SessionSummary
from tests.demo.processes import command

ADDRESS = "unix:/tmp/pumice-demo-12345678/core.sock"


def state(nodes: int, waiting: int) -> DemoState:
    made = DemoState(core_is_unavailable=False, session=12, bound=345, evicted=6)
    made.nodes = [
        Node.from_proto(
            NodeInfo(
                name=f"node-{n:04}", allocatable={"cpu": 16000}, used={"cpu": 12000}, pod_count=7
            )
        )
        for n in range(nodes)
    ]
    share = QueueShare(name="research", deserved={"cpu": 8000}, allocated={"cpu": 4000})
    queue = QueueInfo(share=share, weight=3, running_job_count=4, inqueue_job_count=2)
    made.queues = [Queue.from_proto(queue)]
    short = Reason(code=reason_pb2.REASON_CODE_GANG_SHORT, task="job-0-worker-0", have=1, need=8)
    made.jobs = [
        Job.from_proto(
            JobInfo(
                name=f"job-{number:04}",
                queue="research",
                phase=POD_GROUP_PHASE_INQUEUE,
                pending_count=8,
                reasons=[short],
            )
        )
        for number in range(waiting)
    ]
    made.decisions.extend(
        DecisionLine(9, number % 2 == 0, f"job-{number}", "to " + "node-0001, " * 30)
        for number in range(60)
    )
    made.notes.append("core died (SIGKILL) and was restarted")
    return made


@pytest.mark.parametrize(("width", "height"), [(80, 24), (100, 30), (150, 45), (40, 12)])
@pytest.mark.parametrize(("nodes", "waiting"), [(0, 0), (8, 3), (200, 400)])
def test_a_screen_is_filled_and_not_more(width: int, height: int, nodes: int, waiting: int) -> None:
    out = io.StringIO()
    console = Console(file=out, width=width, height=height, force_terminal=True, color_system=None)
    console.print(render(state(nodes, waiting), 3.0, 20.0, ADDRESS, console.size))
    lines = out.getvalue().splitlines()
    assert len(lines) == height
    assert max(map(len, lines)) <= width
    assert "pumice demo" in lines[0]


def test_what_matters_is_on_the_screen() -> None:
    out = io.StringIO()
    console = Console(file=out, width=150, height=45, force_terminal=True, color_system=None)
    console.print(render(state(2, 1), 3.0, 20.0, ADDRESS, console.size))
    shown = out.getvalue()
    for text in (
        "core died (SIGKILL) and was restarted",
        f"pumice top --core {ADDRESS}",
        "research x3",
        "12/25%",
        "node-0001",
        "75%",
        "evict job-58",
        "job-0000 research, 8 pods: 1/8 tasks fit",
    ):
        assert text in shown, text


def test_queues_are_readable_at_80_columns() -> None:
    out = io.StringIO()
    console = Console(file=out, width=80, height=24, force_terminal=True, color_system=None)
    console.print(render(state(2, 1), 3.0, 20.0, ADDRESS, console.size))
    (row,) = [line for line in out.getvalue().splitlines() if "research x3" in line]
    assert "12/25%" in row
    assert "4 run  2 wait" in row


def test_a_plain_line_says_the_same() -> None:
    assert plain_line(DemoState(), 1.0) == "  1.0 s  core unavailable"
    assert plain_line(state(2, 1), 3.0) == (
        "  3.0 s  session 12   345 bound, 6 evicted, 1 waiting; cpu 75% in use: research 12%"
    )


def test_the_binds_of_a_gang_are_one_line() -> None:
    binds = [
        Decision(gang_id="g", bind=Bind(name=f"job-{n}", node=node))
        for n, node in enumerate(("n2", "n1", "n2"))
    ]
    lone = Decision(bind=Bind(name="lone-0", node="n3"))
    gone = Decision(evict=Evict(name="old-0", for_job="team/job"))
    detail = SessionDetail(
        summary=SessionSummary(session=7),
        gangs=[Gang(id="g", job="team/job")],
        decisions=[*binds, lone, gone],
    )
    assert [str(line) for line in decision_lines(Session.from_proto(detail))] == [
        "evict old-0 for job",
        "bind  job to n1, n2 (2 pods)",
        "bind  lone-0 to n3",
    ]


def test_on_a_terminal_it_is_live_and_leaves_the_summary() -> None:
    master, slave = pty.openpty()
    arguments = command("demo", "--nodes", 2, "--jobs", 2, "--seconds", 6)
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": "100", "LINES": "30"}
    process = subprocess.Popen(arguments, stdout=slave, stdin=slave, env=environment)
    os.close(slave)
    seen = b""
    while True:
        try:
            part = os.read(master, 65536)
        except OSError:
            # The other side has been closed.
            break
        if not part:
            break
        seen += part
    os.close(master)
    assert process.wait() == 0
    live, _, summary = seen.decode().rpartition("\x1b[?1049l")
    assert "waiting jobs, and why" in live
    assert "gangs     2 of 2 whole, 0 in part" in summary


def test_an_incomplete_line_of_a_killed_process_is_no_report() -> None:
    assert last_json('{"jobs": ') is None
    assert last_json('{"jobs": 3}\n{"jobs": ') == {"jobs": 3}
