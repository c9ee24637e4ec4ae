"""What a PodGroup's annotations say about which roles shall be near to each other."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from pumice.core.cache.jobs import Job
from pumice.core.cache.tasks import Task

AFFINITY = "volcano.sh/task-topology-affinity"
ANTI_AFFINITY = "volcano.sh/task-topology-anti-affinity"
TASK_ORDER = "volcano.sh/task-topology-task-order"
_ROLE = "volcano.sh/task-spec"
_AWAY_FROM_ITSELF, _NEAR_OTHERS, _NEAR_ITSELF, _AWAY_FROM_OTHERS = 4, 3, 2, 1

Groups = list[list[str]]


def role_of(task: Task) -> str:
    """The role as the annotation says; a label does not count here."""
    return task.pod.annotations.get(_ROLE, "")


@dataclass(slots=True)
class TaskTopology:
    """Which roles of a job attract and repel each other."""

    # Pairs of roles, in both orders; a role with itself where it attracts or repels itself.
    near: set[tuple[str, str]] = field(default_factory=set)
    away: set[tuple[str, str]] = field(default_factory=set)
    # Roles that are named in a group, by what they are named for.
    priorities: dict[str, int] = field(default_factory=dict)
    orders: dict[str, int] = field(default_factory=dict)

    @classmethod
    def of(cls, job: Job) -> TaskTopology | None:
        """None: the job has no topology, or one that names unknown roles or a role twice."""
        annotations = {} if job.group is None else job.group.annotations
        if not {AFFINITY, ANTI_AFFINITY, TASK_ORDER}.intersection(annotations):
            return None
        near, away = _groups(annotations.get(AFFINITY)), _groups(annotations.get(ANTI_AFFINITY))
        order = [annotations[TASK_ORDER].split(",")] if TASK_ORDER in annotations else []
        roles = {task.role for task in job.index}
        if not all(_is_sound(groups, roles) for groups in (near, away, order)):
            return None
        topology = cls()
        topology._add(near, topology.near, _NEAR_ITSELF, _NEAR_OTHERS)
        topology._add(away, topology.away, _AWAY_FROM_ITSELF, _AWAY_FROM_OTHERS)
        for names in order:
            topology.orders = {role: len(names) - place for place, role in enumerate(names)}
        return topology

    def _add(self, groups: Groups, pairs: set[tuple[str, str]], alone: int, together: int) -> None:
        for group in groups:
            if len(group) == 1:
                pairs.add((group[0], group[0]))
            else:
                pairs.update((a, b) for a in group for b in group if a != b)
            value = alone if len(group) == 1 else together
            for role in group:
                self.priorities[role] = max(self.priorities.get(role, 0), value)

    def rank(self, role: str) -> tuple[int, int]:
        """The higher comes first."""
        return self.orders.get(role, 0), self.priorities.get(role, 0)

    def affinity(self, role: str, roles: Mapping[str, int]) -> int:
        """How many of these tasks attract a role, less those that repel it."""
        return sum(
            count * ((role, other) in self.near) - count * ((role, other) in self.away)
            for other, count in roles.items()
        )

    def repulsion(self, role: str, roles: Mapping[str, int]) -> int:
        """How many of these tasks repel a role."""
        return sum(count for other, count in roles.items() if (role, other) in self.away)


def _groups(text: str | None) -> Groups:
    return [] if text is None else [part.split(",") for part in text.split(";")]


def _is_sound(groups: Groups, roles: set[str]) -> bool:
    """Whether all roles exist, and none is named twice in a group; empty names do not count."""
    for group in groups:
        named = [role for role in group if role]
        if len(set(named)) < len(named) or not roles.issuperset(named):
            return False
    return True
