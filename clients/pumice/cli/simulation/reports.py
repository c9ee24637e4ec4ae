"""Runs and verdicts as text, and as JSON."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from pumice.cli.simulation.runs import SECOND_NS, Cycle, Run
from pumice.cli.simulation.scenarios import Scenario
from pumice.cli.simulation.verdicts import Difference
from pumice.client.reasons import PluginFault, Reason, merge_tasks
from pumice.v1.decision_pb2 import Decision


@dataclass(frozen=True, slots=True)
class Verdict:
    """The result of checking one file."""

    source: str
    name: str
    family: str
    difference: Difference | None = None
    # Why the file could not be checked.
    error: str = ""
    set_aside: tuple[str, ...] = ()

    @property
    def passed(self) -> bool:
        return self.difference is None and not self.error


def clock(now_ns: int) -> str:
    """The time in RFC 3339, without trailing zeros of the fraction."""
    seconds, rest = divmod(now_ns, SECOND_NS)
    text = datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S")
    fraction = f".{rest:09d}".rstrip("0") if rest else ""
    return f"{text}{fraction}Z"


# Text.


def print_run(console: Console, run: Run, now_ns: int) -> None:
    scenario = run.scenario
    console.print(f"[bold]{escape(scenario.name)}[/]  {escape(_contents(scenario))}")
    for number, cycle in enumerate(run.cycles):
        console.print(f"cycle {number + 1}  [dim]{clock(now_ns + number * SECOND_NS)}[/]")
        for line in _decided(cycle):
            console.print(f"  {line}")
        if not cycle.decisions and not cycle.waits:
            console.print("  nothing")
        if cycle.waits:
            console.print(_pending(cycle))


def _contents(scenario: Scenario) -> str:
    counts = Counter(str(held.WhichOneof("object")) for held in scenario.objects)
    words = [
        f"{counts[field]} {word}"
        for field, word in (
            ("node", "nodes"),
            ("queue", "queues"),
            ("pod_group", "pod groups"),
            ("pod", "pods"),
        )
    ]
    return ", ".join(words)


def _decided(cycle: Cycle) -> Iterator[str]:
    for decision in cycle.decisions:
        if decision.HasField("bind"):
            bind = decision.bind
            pod = f"{bind.namespace}/{bind.name}"
            yield f"[green]bind[/] {escape(pod)} {escape(bind.node)}"
        elif decision.HasField("evict"):
            evict = decision.evict
            pod = f"{evict.namespace}/{evict.name}"
            whom = f" for {evict.for_job}" if evict.for_job else ""
            yield f"[red]evict[/] {escape(pod)} from {escape(evict.node)}{escape(whom)}"
    for fault in cycle.faults:
        yield f"[bold red]fault[/] {escape(str(PluginFault.from_proto(fault)))}"


def _pending(cycle: Cycle) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=True, show_edge=False)
    table.add_column("pending job", no_wrap=True)
    table.add_column("phase", no_wrap=True)
    table.add_column("author", no_wrap=True)
    table.add_column("why", overflow="fold")
    for wait in cycle.waits:
        first = (escape(wait.job), cycle.outcome.phases.get(wait.job, ""))
        for reason in merge_tasks(map(Reason.from_proto, wait.reasons)):
            table.add_row(*first, escape(reason.author), escape(reason.text))
            first = ("", "")
    return table


def verdict_line(verdict: Verdict) -> str:
    return f"{verdict.source}: {verdict.difference}"


def tally(verdicts: Sequence[Verdict]) -> str:
    passed = sum(verdict.passed for verdict in verdicts)
    return f"{passed} passed, {len(verdicts) - passed} failed"


# JSON.


def run_json(run: Run, now_ns: int) -> dict[str, Any]:
    return {
        "file": run.scenario.source,
        "name": run.scenario.name,
        "family": run.scenario.family,
        "set_aside": list(run.set_aside),
        "cycles": [
            {"cycle": number + 1, "time": clock(now_ns + number * SECOND_NS), **_cycle_json(cycle)}
            for number, cycle in enumerate(run.cycles)
        ],
    }


def _cycle_json(cycle: Cycle) -> dict[str, Any]:
    return {
        "binds": dict(cycle.outcome.binds),
        "evicts": sorted(cycle.outcome.evicts),
        "podgroups": dict(cycle.outcome.phases),
        "decisions": [_decision_json(decision) for decision in cycle.decisions],
        "waits": [
            {
                "job": wait.job,
                "reasons": [
                    {
                        "author": reason.author,
                        "text": Reason.from_proto(reason).text,
                        "task": reason.task,
                        "have": reason.have,
                        "need": reason.need,
                        "subjects": list(reason.subjects),
                        "nodes": {count.reason: count.node_count for count in reason.nodes},
                    }
                    for reason in wait.reasons
                ],
            }
            for wait in cycle.waits
        ],
        "faults": [
            {
                "author": fault.author,
                "where": fault.where,
                "error": fault.error,
                "file": fault.file,
                "line": fault.line,
            }
            for fault in cycle.faults
        ],
    }


def _decision_json(decision: Decision) -> dict[str, str]:
    if decision.HasField("bind"):
        bind = decision.bind
        return {"action": "bind", "pod": f"{bind.namespace}/{bind.name}", "node": bind.node}
    evict = decision.evict
    return {
        "action": "evict",
        "pod": f"{evict.namespace}/{evict.name}",
        "node": evict.node,
        "reason": evict.reason,
        "for": evict.for_job,
    }


def check_json(verdicts: Sequence[Verdict]) -> dict[str, Any]:
    families: dict[str, dict[str, int]] = {}
    for verdict in verdicts:
        counts = families.setdefault(verdict.family, {"passed": 0, "failed": 0})
        counts["passed" if verdict.passed else "failed"] += 1
    passed = sum(verdict.passed for verdict in verdicts)
    return {
        "passed": passed,
        "failed": len(verdicts) - passed,
        "families": dict(sorted(families.items())),
        "files": [_verdict_json(verdict) for verdict in verdicts],
    }


def _verdict_json(verdict: Verdict) -> dict[str, Any]:
    result: dict[str, Any] = {
        "file": verdict.source,
        "name": verdict.name,
        "family": verdict.family,
        "passed": verdict.passed,
    }
    if verdict.error:
        result["error"] = verdict.error
    if verdict.difference is not None:
        result["difference"] = {
            "cycle": verdict.difference.cycle,
            "expected": list(verdict.difference.expected),
            "decided": list(verdict.difference.decided),
        }
    if verdict.set_aside:
        result["set_aside"] = list(verdict.set_aside)
    return result
