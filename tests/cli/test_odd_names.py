"""Names and texts that look like markup are printed as they are."""

import asyncio
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from rich.text import Text

from pumice.cli.main import run
from pumice.cli.queries.watch import session_lines
from pumice.client.sessions import Session
from pumice.v1 import decision_pb2, session_pb2
from tests.server.running import gang, group, node, pod, queue, running_core

ODD = "x[red]y"


@pytest.mark.parametrize(
    "command",
    [
        ["show", "clusters"],
        ["show", "queues"],
        ["show", "jobs"],
        ["show", "nodes"],
        ["show", "sessions"],
        ["show", "session", "1"],
        ["show", "config"],
        ["top", "--once"],
        ["explain", "job", f"team/{ODD}"],
        ["explain", "job", f"team/wait{ODD}"],
        ["explain", "pod", f"team/{ODD}-0"],
        ["explain", "pod", f"team/wait{ODD}-0"],
    ],
    ids=lambda command: " ".join(command).replace(ODD, ""),
)
async def test_odd_names_are_printed_as_they_are(
    command: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with TemporaryDirectory(prefix="pumice-") as folder:
        async with running_core(Path(folder)) as core:
            adapter = await core.served(
                [
                    queue(),
                    queue(ODD),
                    node(ODD),
                    group(ODD, 1, queue=ODD),
                    pod(ODD, 0),
                    *gang(f"wait{ODD}", 1, cpu=9000),
                ],
                cluster=ODD,
            )
            await adapter.decisions()
            await core.session(1)
            arguments = [*command, "--core", core.server.address]
            code = await asyncio.to_thread(run, arguments)
    shown = capsys.readouterr()
    assert code == 0, shown.err
    if command[:2] not in (["show", "sessions"], ["show", "config"]):
        assert ODD in shown.out.replace("\n", "")


def test_an_eviction_is_printed_as_it_is() -> None:
    evict = decision_pb2.Evict(namespace="team", name=ODD, node=ODD, reason=ODD, for_job=ODD)
    detail = session_pb2.SessionDetail(
        decisions=[decision_pb2.Decision(evict=evict)],
        summary=session_pb2.SessionSummary(session=1),
    )
    shown = "\n".join(session_lines(Session.from_proto(detail)))
    assert Text.from_markup(shown).plain.count(ODD) == 4
