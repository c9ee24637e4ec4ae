"""Runs of scenarios in a core in this process, cycle by cycle."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from pumice.cli.errors import InputProblem
from pumice.cli.simulation.changes import ChangeApplier
from pumice.cli.simulation.scenarios import Outcome, Scenario
from pumice.server.local import ConfigurationRefusedError, LocalCore
from pumice.testing.world import World
from pumice.v1.condition_pb2 import ConditionStatus
from pumice.v1.configuration_pb2 import Configuration, ConfigurationProblem
from pumice.v1.decision_pb2 import Decision
from pumice.v1.delta_pb2 import PluginData
from pumice.v1.group_pb2 import PodGroup
from pumice.v1.object_pb2 import Kind, RejectedObject
from pumice.v1.pod_pb2 import Pod
from pumice.v1.reason_pb2 import PluginFault, Wait

SECOND_NS = 1_000_000_000


@dataclass(frozen=True, slots=True)
class Cycle:
    """The decisions of one session, and the PodGroups after it."""

    outcome: Outcome
    decisions: tuple[Decision, ...]
    waits: tuple[Wait, ...]
    faults: tuple[PluginFault, ...]


@dataclass(frozen=True, slots=True)
class Run:
    """All cycles of a scenario, and the objects that the core rejected."""

    scenario: Scenario
    cycles: tuple[Cycle, ...]
    set_aside: tuple[str, ...]

    @property
    def outcomes(self) -> tuple[Outcome, ...]:
        return tuple(cycle.outcome for cycle in self.cycles)


# Compatibility switches for a Volcano that has just started; scenarios expect its decisions.
_JUST_STARTED = ("late-devices",)


def run(
    scenario: Scenario, now_ns: int, *, explain: bool = False, as_recorded: bool = False
) -> Run:
    """Runs a scenario. Raises InputProblem if the configuration is invalid.

    With ``explain``, waits for a queue's limit have the resources and amounts. With
    ``as_recorded``, the core behaves like a Volcano that has just started.
    """
    compat = _JUST_STARTED if as_recorded else ()
    try:
        core = LocalCore(Configuration(scheduler_conf=scenario.conf or "", compat=compat))
    except ConfigurationRefusedError as error:
        raise InputProblem(f"{scenario.source}: {problems_text(error.problem_messages)}") from None
    world = World(scenario.objects)
    applier = ChangeApplier(world, scenario.objects)
    rejected = core.upsert(*scenario.objects)
    cycles = []
    for number in range(scenario.cycles):
        core.bring(*_measured(scenario, now_ns + number * SECOND_NS))
        session = core.session(now_ns + number * SECOND_NS)
        waits = core.waits() if explain else session.waits
        changes = world.apply(session.decisions, session.statuses)
        core.upsert(*changes.objects)
        core.delete(*changes.gone)
        cycles.append(
            Cycle(
                _outcome(session.decisions, world),
                tuple(session.decisions),
                tuple(waits),
                tuple(session.faults),
            )
        )
        if number < len(scenario.changes):
            upserted, deleted = applier.apply(scenario.changes[number])
            core.delete(*deleted)
            rejected += core.upsert(*upserted)
    set_aside = (*scenario.set_aside, *(rejection_text(scenario, one) for one in rejected))
    return Run(scenario, tuple(cycles), set_aside)


def _measured(scenario: Scenario, now_ns: int) -> Iterator[PluginData]:
    """The usage of nodes, as an adapter sends it."""
    for node, usage in scenario.metrics.items():
        numbers = {**usage, "time": now_ns / SECOND_NS}
        yield PluginData(plugin="usage", name=node, numbers=numbers)


def _outcome(decisions: Iterable[Decision], world: World) -> Outcome:
    binds = {}
    evicts = set()
    for decision in decisions:
        if decision.HasField("bind"):
            binds[f"{decision.bind.namespace}/{decision.bind.name}"] = decision.bind.node
        elif decision.HasField("evict"):
            evicts.add(f"{decision.evict.namespace}/{decision.evict.name}")
    return Outcome(
        binds,
        frozenset(evicts),
        world.phases(),
        {f"{g.namespace}/{g.name}": (_conditions(g),) for g in world.groups()},
        {f"{p.namespace}/{p.name}": (_pod_condition(p),) for p in world.pods()},
    )


def _conditions(group: PodGroup) -> tuple[tuple[str, ...], ...]:
    """Type, status, reason and message of each condition."""
    return tuple(
        (c.type, _status_name(c.status), c.reason, c.message) for c in group.status.conditions
    )


def _pod_condition(pod: Pod) -> tuple[str, ...]:
    """Status, reason and message of PodScheduled, and the nominated node; empty without it."""
    for c in pod.conditions:
        if c.type == "PodScheduled":
            return (_status_name(c.status), c.reason, c.message, pod.nominated_node_name)
    return ()


def _status_name(status: ConditionStatus.ValueType) -> str:
    return ConditionStatus.Name(status).removeprefix("CONDITION_STATUS_").capitalize()


def problems_text(problems: Iterable[ConfigurationProblem]) -> str:
    """The first problem of a configuration in one line, and the number of further ones."""
    first, *more = [problem_text(problem) for problem in problems if not problem.warning]
    return f"{first} (and {len(more)} more; see 'pumice conf check')" if more else first


def problem_text(problem: ConfigurationProblem) -> str:
    where = f"configuration line {problem.line}" if problem.line else "configuration"
    path = f"{problem.path}: " if problem.path else ""
    return f"{where}: {path}{problem.problem}"


def rejection_text(scenario: Scenario, rejected: RejectedObject) -> str:
    kind = Kind.Name(rejected.kind).removeprefix("KIND_").title().replace("_", "")
    return f"{scenario.source}: {kind} {rejected.key}: {rejected.field}: {rejected.reason}"
