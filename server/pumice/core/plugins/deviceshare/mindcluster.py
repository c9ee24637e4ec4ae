"""Ascend 310P NPUs in MindCluster's way: shares are templates with AI cores, or whole chips."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from pumice.core.cache.entries import NodeEntry
from pumice.core.cache.plugin_data import PluginData
from pumice.core.cache.tasks import Task, TaskClass
from pumice.core.model.quantities import whole_units
from pumice.core.plugins.deviceshare.cards import (
    MAX_CARDS,
    Annotations,
    Choice,
    DeviceKind,
    Indexes,
    NodeCards,
    Question,
    Share,
    State,
    Usage,
    parse_uint32,
    parse_uint32s,
    with_shares,
)

CORES = "huawei.com/npu-core"
_CHIP = "Ascend310P"
_REAL = "huawei.com/AscendReal"
_CHIPS = f"huawei.com/{_CHIP}"
# The prefix of the names of nodes, in the data that the adapter reports.
NODE_DATA = "npu/"
_NODE_STATUS, _PRE_SEPARATE = "NodeStatus", "PreSeparate"
_POINTS = 8.0
# The AI cpus of a chip, by its AI cores.
_CPUS = {8: 7, 10: 7}
# By the number of groups on a chip, the number of cores from which a template does not fit.
_TOO_MANY_CORES = {3: 4, 4: 2}


class Template(NamedTuple):
    """A part of a chip. DVPP, the decoder for pictures and videos, is yes, no, or null for either."""

    name: str
    cores: int
    cpus: int
    dvpp: str = "null"


_TEMPLATES = {
    template.name: template
    for template in (
        Template("vir01", 1, 1),
        Template("vir02", 2, 2),
        Template("vir02_1c", 2, 1),
        Template("vir04", 4, 4),
        Template("vir04_3c", 4, 3),
        Template("vir04_3c_ndvpp", 4, 3, "no"),
        Template("vir04_4c_dvpp", 4, 4, "yes"),
    )
}
# The template that a pod gets if its own does not fit.
_SMALLER = {"vir02": "vir02_1c", "vir04": "vir04_3c"}
# ``Usage.parts`` has an entry for each pod on a chip: the template, a slash, and a group of the chip.
# Before the device plugin has created the group, the entry has one of these instead of a group: the
# pod was placed, or the device plugin was requested to create the group.
_PLACED, _REQUESTED = "?", "!"


@dataclass(frozen=True, slots=True)
class _Shape:
    """AI cores and AI cpus of each chip."""

    cores: int
    cpus: int


class MindClusterNpu(DeviceKind):
    """Shares of chips, which the device plugin of a node divides when a pod starts."""

    name = "Ascend310P-vNPU"
    # The device plugin uses no locks.
    lock = ""
    reason = "not enough AI cores on the NPUs of the node"
    has_facets = True

    def __init__(self, data: PluginData, *, keeps_free_chips: bool) -> None:
        self._data, self._keeps_free_chips = data, keeps_free_chips

    def request_of(self, class_: TaskClass) -> int | None:
        """The AI cores of the first container that requests some."""
        containers = [c for c in class_.spec.containers if not c.init]
        if not any(CORES in dict(container.limits) for container in containers):
            return None
        amounts = (dict(c.requests).get(CORES, dict(c.limits).get(CORES, 0)) for c in containers)
        return next((whole_units(amount) for amount in amounts if amount), None)

    def facet_of(self, task: Task) -> tuple[bool, str] | None:
        """Whether the pod prefers more cpus, and its DVPP preference; None: it prefers nothing."""
        labels = task.pod.labels
        preferences = (labels.get("vnpu-level") == "high", labels.get("vnpu-dvpp", "null"))
        return None if preferences == (False, "null") else preferences

    def is_possible(self, request: Any, facet: Any) -> bool:
        """False, because Volcano does not evict pods for these chips."""
        return False

    def cards_of(self, entry: NodeEntry) -> tuple[_Shape, tuple[str, ...]] | None:
        shape = _shape_of(entry)
        chips = self._chips(entry)
        if shape is None or not chips:
            return None
        return shape, tuple(str(chip) for chip in sorted(chips))

    def shares_of(self, task: Task, shape: _Shape, indexes: Indexes) -> Iterator[Share]:
        chips, name = _chips_of(task.annotations.get(CORES, ""))
        # Without a known template, the share is a whole chip.
        template = _TEMPLATES.get(name) or Template(name, shape.cores, shape.cpus)
        real = task.annotations.get(_REAL, "")
        group = real.rpartition("_")[2] if "_" in real else ""
        if not real:
            group = _REQUESTED if CORES in task.pod.annotations else _PLACED
        for chip in chips:
            index = indexes.get(str(chip))
            if index is not None:
                part = f"{name}/{group}"
                yield Share(index, template.cpus, template.cores, part, template.cpus)

    def _chips(self, entry: NodeEntry) -> set[int]:
        """The numbers of the usable chips; empty if there is no data about the node."""
        known = self._data.get(f"{NODE_DATA}{entry.name}")
        if _CHIPS not in known or known.get(_NODE_STATUS) == _PRE_SEPARATE:
            return set()
        listed = _numbers(known.get(_CHIPS))
        if self._keeps_free_chips:
            listed = _base_chips(entry.known_node.annotations.get("baseDeviceInfos", "")) or listed
            for task in entry.tasks.values():
                listed -= _numbers(task.annotations.get(_CHIPS))
            listed -= _numbers(known.get(f"{_CHIPS}-Recovering"))
        for task in entry.tasks.values():
            listed |= set(_chips_of(task.annotations.get(CORES, ""))[0])
        listed -= _numbers(known.get(f"{_CHIPS}-Unhealthy"))
        return listed if len(listed) <= MAX_CARDS else set()

    def choose(self, state: State, question: Question) -> Choice | None:
        (shape, usage), (request, facet, _) = state, question
        if not request % shape.cores:
            return _whole_chips(shape, usage, request // shape.cores)
        high, dvpp = facet if isinstance(facet, tuple) else (False, "null")
        template = _template(request, dvpp, high=high)
        while template is not None:
            chip = _chip_for(template, shape, usage)
            if chip is not None:
                # The device plugin creates shares of one template at a time.
                if _unserved(usage) - {template.name}:
                    return None
                part = f"{template.name}/{_PLACED}"
                share = Share(chip, template.cpus, template.cores, part, template.cpus)
                return Choice(((share,),), with_shares(usage, [share]), 0.0)
            template = _TEMPLATES.get(_SMALLER.get(template.name, ""))
        return None

    def points(
        self, task: Task, entries: Sequence[NodeEntry], idle_cores: Sequence[float]
    ) -> list[float] | None:
        """Points for the node with the fewest idle cores where the pod gets its preferred template.

        Nodes with fewer idle cores and a smaller template get fewer points. None: it requests no chip.
        """
        request = self.request_of(task.class_)
        if request is None:
            return None
        order = sorted(range(len(entries)), key=lambda i: (idle_cores[i], entries[i].name))
        smaller = {i for i in order if self._is_smaller(entries[i], task, request)}
        points = [0.0] * len(entries)
        for index in order:
            points[index] = _POINTS if index in smaller or not smaller else 2 * _POINTS
            if index not in smaller:
                break
        return points

    def _is_smaller(self, entry: NodeEntry, task: Task, request: int) -> bool:
        """Whether the pod would get a smaller template on a node than it prefers."""
        facet = self.facet_of(task)
        template = _template(request, "null", high=True)
        if facet is None or facet[1] != "null" or template is None or template.name not in _SMALLER:
            return False
        cards = self.read(entry)
        return cards is not None and _chip_for(template, cards.shape, cards.usage) is None

    def annotations(self, task: Task, cards: NodeCards, choice: Choice, now_ns: int) -> Annotations:
        shares = choice.shares[0]
        template = shares[0].part.partition("/")[0]
        chips = ",".join(cards.names[share.card] for share in shares)
        value = f"{chips}-{template}" if template else chips
        return {CORES: value, "predicate-time": str(now_ns)}


def _template(cores: int, dvpp: str, *, high: bool) -> Template | None:
    """The template with this number of cores; None: there is none."""
    if dvpp not in ("yes", "no", "null"):
        return None
    by_cores = {
        1: "vir01",
        2: "vir02" if high else "vir02_1c",
        4: {"yes": "vir04_4c_dvpp", "no": "vir04_3c_ndvpp"}.get(
            dvpp, "vir04" if high else "vir04_3c"
        ),
    }
    return _TEMPLATES.get(by_cores.get(cores, ""))


def _chip_for(template: Template, shape: _Shape, usage: tuple[Usage, ...]) -> int | None:
    """The fullest chip with room for a template; None: there is none."""
    free = [(shape.cores - used.cores, shape.cpus - used.memory) for used in usage]
    for index in sorted(range(len(usage)), key=lambda i: (*free[i], i)):
        cores, cpus = free[index]
        if cores >= template.cores and cpus >= template.cpus and _can_share(template, usage[index]):
            return index
    return None


def _can_share(template: Template, used: Usage) -> bool:
    """Whether a further pod with this template can share a chip with the pods on it."""
    others = [part.rpartition("/") for part in used.parts]
    if any(group == _REQUESTED for _, _, group in others):
        return False
    groups = {group for _, _, group in others if group.isdigit()}
    if template.cores >= _TOO_MANY_CORES.get(len(groups), template.cores + 1):
        return False
    dvpp = {_TEMPLATES[name].dvpp for name, _, _ in others if name in _TEMPLATES}
    if template.dvpp == "yes":
        return dvpp <= {"no"}
    return template.dvpp == "no" or "yes" not in dvpp


def _whole_chips(shape: _Shape, usage: tuple[Usage, ...], count: int) -> Choice | None:
    free = [index for index, used in enumerate(usage) if not used.cores]
    if not count or len(free) < count or _unserved(usage) - {""}:
        return None
    part = f"/{_PLACED}"
    shares = [Share(i, shape.cpus, shape.cores, part, shape.cpus) for i in free[:count]]
    return Choice((tuple(shares),), with_shares(usage, shares), 0.0)


def _unserved(usage: tuple[Usage, ...]) -> set[str]:
    """Templates of pods that the device plugin has not served yet; a whole chip has an empty name."""
    parts = (part.rpartition("/") for used in usage for part in used.parts)
    return {name for name, _, group in parts if group in (_PLACED, _REQUESTED)}


def _shape_of(entry: NodeEntry) -> _Shape | None:
    """Cores and cpus of a node's chips, from its labels and capacity; None: it has no such chips."""
    node = entry.known_node
    if node.labels.get("accelerator", "").split("-")[1:2] != [_CHIP]:
        return None
    fields = node.labels.get("servertype", "").split("-")
    cores = parse_uint32(fields[1]) if len(fields) > 1 else None
    total = whole_units(dict(node.capacity).get(CORES, 0))
    if cores not in _CPUS or not total or total % cores:
        return None
    has_name = "node.kubernetes.io/npu.chip.name" in node.labels
    return _Shape(cores, _CPUS[cores]) if has_name else None


def _chips_of(text: str) -> tuple[list[int], str]:
    """The chips of a pod and its template: ``0,1`` or ``0-vir04``."""
    first, _, template = text.partition("-")
    numbers = parse_uint32s(first)
    return ([], "") if numbers is None else (numbers, template)


def _numbers(text: object) -> set[int]:
    """The numbers of chips in a list such as ``Ascend310P-0,Ascend310P-3``."""
    parts = text.split(",") if isinstance(text, str) else ()
    numbers = (parse_uint32(part.removeprefix(f"{_CHIP}-")) for part in parts)
    return {number for number in numbers if number is not None}


def _base_chips(text: str) -> set[int]:
    """The chips that a node lists in its annotation; empty if the annotation is invalid."""
    try:
        return _numbers(",".join(json.loads(text)))
    except (TypeError, ValueError, RecursionError):
        return set()
