"""Host ports: one pod a port, protocol and address of a node."""

from __future__ import annotations

import pytest

from pumice.core.model.pod import HostPort
from pumice.core.model.status import TaskStatus
from tests.core.builders import node, pod, pod_group, queue
from tests.core.plugins.opened import Opened, options
from tests.core.plugins.verdicts import U, Verdict, verdicts

ANY = "0.0.0.0"
TAKEN: Verdict = [("node(s) didn't have free ports for the requested pod ports", U)]


def opened_with(used: HostPort, wanted: HostPort, **arguments: object) -> Opened:
    return Opened(
        queue(),
        pod_group("g"),
        node("n1"),
        node("n2"),
        pod("old", "g", on="n1", spec={"host_ports": (used,)}),
        pod("p", "g", spec={"host_ports": (wanted,)}),
        pod("plain", "g"),
        plugins=[options("predicates", **arguments)],
    )


@pytest.mark.parametrize(
    ("used", "wanted", "conflict"),
    [
        (HostPort("TCP", ANY, 80), HostPort("TCP", ANY, 80), True),
        (HostPort("TCP", ANY, 80), HostPort("TCP", ANY, 81), False),
        (HostPort("TCP", ANY, 80), HostPort("UDP", ANY, 80), False),
        (HostPort("TCP", "10.0.0.1", 80), HostPort("TCP", "10.0.0.2", 80), False),
        (HostPort("TCP", "10.0.0.1", 80), HostPort("TCP", "10.0.0.1", 80), True),
        (HostPort("TCP", "10.0.0.1", 80), HostPort("TCP", ANY, 80), True),
        (HostPort("TCP", ANY, 80), HostPort("TCP", "10.0.0.1", 80), True),
    ],
)
def test_ports_conflict_by_protocol_number_and_address(
    used: HostPort, wanted: HostPort, conflict: bool
) -> None:
    assert verdicts(opened_with(used, wanted), "p") == {"n1": TAKEN if conflict else [], "n2": []}


def test_a_pod_placed_in_the_session_holds_its_ports() -> None:
    port = HostPort("TCP", ANY, 80)
    opened = opened_with(HostPort("TCP", ANY, 81), port)
    opened.session.moves.place(opened.task("p"), "n2", TaskStatus.PIPELINED)
    assert verdicts(opened, "p")["n2"] == TAKEN
    opened.session.moves.unplace(opened.task("p"))
    assert verdicts(opened, "p")["n2"] == []


def test_a_pod_without_host_ports_is_not_looked_at() -> None:
    port = HostPort("TCP", ANY, 80)
    opened = opened_with(port, port)
    assert opened.hooks.task_predicate["predicates"](opened.task("plain")) is None
    assert opened.hooks.is_plain["predicates"](opened.task("plain"))
    assert not opened.hooks.is_plain["predicates"](opened.task("p"))


def test_the_filter_can_be_switched_off() -> None:
    port = HostPort("TCP", ANY, 80)
    opened = opened_with(port, port, predicate__NodePortsEnable=False)
    assert verdicts(opened, "p") == {"n1": [], "n2": []}
