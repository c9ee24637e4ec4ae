"""Scenarios as text: tables of objects, and the output of the engine.

A ``.case`` file is a sequence of cycles. Each applies its tables and must print what follows
``----``. Before the first cycle there may be a configuration and what else to show::

    conf
      actions enqueue, allocate, backfill
      tier    priority gang(enablePreemptable=false)
      tier    predicates nodeorder(leastrequested.weight=0)
    show phases

    cycle
    nodes   cpu
      n1    4
    jobs    queue  tasks  cpu
      a     blue   1      3
    ----
    bind a-0 n1

    # A second later, unless it says otherwise.
    cycle 60s later
    gone
      pod a-0
    ----
    nothing

Without a ``queues`` table there is one queue, ``default``. Rows of a table name an object and give
its columns; ``-`` leaves one out, and a row with a known name replaces the object. ``gone`` takes
objects away, ``ends`` lets pods succeed or fail. Rows of ``apply`` are whole objects as YAML, without
a uid. Rows of ``data`` are a plugin, a name and values that an adapter reports; ``ago=30`` is a time.

A line ``arguments`` of the configuration gives a plugin of the tiers its arguments as YAML, and
``gates`` names feature gates that are on, ``devices`` is a device configuration as JSON.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from pumice.core.cache.settings import CacheSettings
from pumice.core.decisions import Bind, PodConditionChanged, QueueStatusChanged, SessionResult
from pumice.core.deltas import ClusterObject, DataReported
from pumice.core.engine import Engine
from pumice.core.model.devices import ResourceSlice
from pumice.core.model.group import (
    PodDisruptionBudget,
    PodGroup,
    PriorityClass,
    Queue,
    ResourceQuota,
)
from pumice.core.model.node import Node
from pumice.core.model.pod import Pod, PodPhase
from pumice.core.model.topology import HyperNode, NumaTopology
from tests.tables import NAMESPACE, Manifest, Tables
from tests.world import SECOND_NS, START_NS, Cluster, lines, make_engine, read_delta, read_object

__all__ = ["make_engine", "play", "read_case", "read_delta", "rewritten"]

_SHOWN = ("phases", "nominations", "queues", "annotations", "questions")
_KINDS: dict[str, type[ClusterObject]] = {
    "node": Node,
    "pod": Pod,
    "job": PodGroup,
    "queue": Queue,
    "class": PriorityClass,
    "quota": ResourceQuota,
    "hypernode": HyperNode,
    "pdb": PodDisruptionBudget,
    "numatopology": NumaTopology,
    "slice": ResourceSlice,
}
_RULE = "----"
_PLUGIN = re.compile(r"([\w-]+)(?:\((.*?)\))?(?:\s+|$)")


class CaseError(Exception):
    """An invalid scenario, with the line."""


@dataclass
class CaseCycle:
    """One cycle: its numbered input lines and its expected output."""

    later_ns: int
    tables: list[tuple[int, str]] = field(default_factory=list)
    expected: list[str] = field(default_factory=list)


@dataclass
class Case:
    """A scenario file."""

    text: str
    conf: list[tuple[int, str]] = field(default_factory=list)
    show: tuple[str, ...] = ()
    cycles: list[CaseCycle] = field(default_factory=list)


def read_case(path: Path) -> Case:
    case = Case(path.read_text(encoding="utf-8"))
    target: list[tuple[int, str]] | None = None
    printed = False
    for number, line in enumerate(case.text.splitlines(), start=1):
        words = line.split()
        if line.startswith("cycle"):
            case.cycles.append(CaseCycle(_later(words, number)))
            target, printed = case.cycles[-1].tables, False
        elif line.startswith(_RULE):
            printed = True
        elif printed and words:
            case.cycles[-1].expected.append(line)
        elif not words or line.startswith("#"):
            printed = False
        elif words[0] == "show" and not case.cycles:
            case.show = tuple(words[1:])
            assert set(case.show) <= set(_SHOWN), f"line {number}: can show {_SHOWN}"
        elif words[0] == "conf" and not case.cycles:
            target = case.conf
        elif target is None:
            raise CaseError(f"line {number}: {line!r} stands before the first cycle")
        else:
            target.append((number, line))
    return case


def _later(words: list[str], number: int) -> int:
    if words == ["cycle"]:
        return SECOND_NS
    match = re.fullmatch(r"cycle (\d+)s later", " ".join(words))
    if match is None:
        raise CaseError(f"line {number}: a cycle is 'cycle' or 'cycle 60s later'")
    return int(match[1]) * SECOND_NS


def play(case: Case) -> list[list[str]]:
    """The output of each cycle."""
    return list(_Play(case).outputs())


def rewritten(case: Case, printed: list[list[str]]) -> str:
    """The file with the output in place of the expected output."""
    result: list[str] = []
    outputs = iter(printed)
    skipping = False
    for line in case.text.splitlines():
        if skipping and line.strip() and not line.startswith("cycle"):
            continue
        skipping = line.startswith(_RULE)
        result.append(line)
        if skipping:
            result += next(outputs)
    return "\n".join(result) + "\n"


class _Play:
    """A running scenario."""

    def __init__(self, case: Case) -> None:
        self._case = case
        self._tables = Tables()
        self._cluster = Cluster(_engine(case.conf))
        self._uids: dict[tuple[type[ClusterObject], str], str] = {}
        self._phases: dict[str, str] = {}
        self._now_ns = START_NS - SECOND_NS

    def outputs(self) -> Iterator[list[str]]:
        for cycle in self._case.cycles:
            self._now_ns += cycle.later_ns
            self._apply(cycle)
            if self._now_ns <= START_NS:
                self._default_queue()
            result = self._cluster.cycle(self._now_ns)
            yield [*lines(result), *self._more(result)] or ["nothing"]

    def _default_queue(self) -> None:
        if not any(kind is Queue for kind, _ in self._cluster.objects):
            self._read("queues", "default", {})

    def _apply(self, cycle: CaseCycle) -> None:
        table, columns = "", list[str]()
        for number, line in cycle.tables:
            words = line.split()
            if not line[0].isspace():
                table, columns = words[0], words[1:]
                if table not in (*self._tables.kinds, "gone", "ends", "apply", "data"):
                    raise CaseError(f"line {number}: unknown table {table!r}")
            elif table == "gone":
                kind = _KINDS[words[0]]
                self._cluster.take(kind, self._uid(kind, words[1]))
            elif table == "ends":
                self._end(words[0], words[1])
            elif table == "apply":
                self._put(self._tables.whole(yaml.safe_load(line)))
            elif table == "data":
                values = dict(self._value(word) for word in words[2:])
                self._cluster.engine.apply([DataReported(words[0], words[1], values)])
            elif len(words) - 1 != len(columns):
                raise CaseError(f"line {number}: {len(columns)} cells expected after the name")
            else:
                self._read(table, words[0], dict(zip(columns, words[1:], strict=True)))

    def _read(self, table: str, name: str, row: dict[str, str]) -> None:
        for manifest in self._tables.read(table, name, row):
            self._put(manifest)

    def _put(self, manifest: Manifest) -> None:
        rejected = self._cluster.put(read_object(manifest))
        assert not rejected, rejected

    def _value(self, word: str) -> tuple[str, str | float]:
        """``cpu=80``, a text, or ``ago=30``: the time so many seconds before this cycle."""
        key, _, text = word.partition("=")
        if key == "ago":
            return "time", self._now_ns / SECOND_NS - float(text)
        try:
            return key, float(text)
        except ValueError:
            return key, text

    def _uid(self, kind: type[ClusterObject], name: str) -> str:
        key = name if "/" in name or kind not in (Pod, PodGroup) else f"{NAMESPACE}/{name}"
        for held, item in self._cluster.objects.items():
            if held[0] is kind and getattr(item, "key", getattr(item, "name", "")) == key:
                return item.uid
        raise CaseError(f"there is no {kind.__name__} {name}")

    def _end(self, name: str, how: str) -> None:
        pod = self._cluster.objects[Pod, self._uid(Pod, name)]
        assert isinstance(pod, Pod)
        phase = {"succeeded": PodPhase.SUCCEEDED, "failed": PodPhase.FAILED}[how]
        self._cluster.put(dataclasses.replace(pod, phase=phase))

    def _more(self, result: SessionResult) -> list[str]:
        """The objects named by ``show`` that changed."""
        said = []
        if "phases" in self._case.show:
            phases = {g.name: str(g.status.phase) for g in self._cluster.groups()}
            said += [f"phase {n} {p}" for n, p in phases.items() if self._phases.get(n) != p]
            self._phases = phases
        if "annotations" in self._case.show:
            for bind in (d for d in result.decisions if isinstance(d, Bind)):
                told = ((k, v) for k, v in bind.annotations if not k.endswith("time"))
                said += [f"annotation {bind.name} {key}={value}" for key, value in told]
        if "questions" in self._case.show:
            said += [f"question {question.name}" for question in result.questions]
        for change in result.statuses:
            match change:
                case PodConditionChanged() if "nominations" in self._case.show:
                    if change.nominated_node_name:
                        said.append(f"nominate {change.name} {change.nominated_node_name}")
                case QueueStatusChanged() if "queues" in self._case.show:
                    amounts = " ".join(f"{n}={v}" for n, v in change.allocated if n != "pods")
                    said.append(f"queue {change.name} {amounts or 'empty'}")
        return said


def _engine(conf: list[tuple[int, str]]) -> Engine:
    if not conf:
        return Engine()
    actions, tiers, gates = "enqueue, allocate, backfill", list[list[dict[str, Any]]](), ""
    devices = ""
    for number, line in conf:
        word, _, rest = line.strip().partition(" ")
        if word == "actions":
            actions = rest.strip()
        elif word == "tier":
            tiers.append([_plugin(m[1], m[2]) for m in _PLUGIN.finditer(rest.strip())])
        elif word == "arguments":
            name, _, text = rest.strip().partition(" ")
            entry = next(entry for tier in tiers for entry in tier if entry["name"] == name)
            entry["arguments"] = yaml.safe_load(text)
        elif word == "gates":
            gates = rest
        elif word == "devices":
            devices = rest.strip()
        else:
            raise CaseError(f"line {number}: a configuration has actions, tiers and arguments")
    engine = make_engine(actions, tiers, CacheSettings(feature_gates=tuple(gates.split())))
    engine.configure(dataclasses.replace(engine.configuration, device_config=devices))
    return engine


def _plugin(name: str, options: str | None) -> dict[str, Any]:
    """``gang(enablePreemptable=false)``: flags begin with enable, the rest are arguments."""
    entry: dict[str, Any] = {"name": name}
    for option in (options or "").split(","):
        key, _, text = option.strip().partition("=")
        if key.startswith("enable"):
            entry[key] = text == "true"
        elif key:
            entry.setdefault("arguments", {})[key] = _value(text)
    return entry


def _value(text: str) -> object:
    for read in (int, float):
        try:
            return read(text)
        except ValueError:
            pass
    return text
