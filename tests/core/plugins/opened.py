"""A session opened over a small cluster, with chosen plugins and nothing done yet."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from pumice.core.cache.jobs import Job
from pumice.core.cache.settings import CacheSettings
from pumice.core.cache.tasks import Task
from pumice.core.configuration import Arguments, Configuration, PluginOptions
from pumice.core.deltas import ClusterObject
from pumice.core.engine import Engine
from pumice.core.model.group import Queue
from pumice.core.model.node import Node
from pumice.core.model.pod import Pod
from pumice.core.registry import Plugin
from pumice.core.session.feasibility.views import ClassViews
from pumice.core.session.hooks import Hooks
from pumice.core.session.session import Session
from tests.core.builders import NOW_NS, amounts, fill

GPU = "nvidia.com/gpu"
Amounts = tuple[tuple[str, int], ...]


def options(name: str, *flags: str, **arguments: object) -> PluginOptions:
    """A plugin with flags switched on; dots in argument names are written as __."""
    values = {key.replace("__", "."): value for key, value in arguments.items()}
    return PluginOptions(name, tuple((flag, True) for flag in flags), Arguments(values))


class Opened:
    """A session and the plugins that were opened on it."""

    def __init__(
        self,
        *objects: ClusterObject,
        plugins: Sequence[str | PluginOptions],
        now_ns: int = NOW_NS,
        actions: tuple[str, ...] = ("enqueue", "allocate", "backfill"),
        settings: CacheSettings | None = None,
    ) -> None:
        tier = tuple(p if isinstance(p, PluginOptions) else PluginOptions(p) for p in plugins)
        configuration = Configuration(actions, (tier,))
        self.engine = fill(Engine(configuration, settings), *objects)
        self.engine.cache.settle()
        self.session = Session(1, now_ns, self.engine.cache, configuration, ClassViews())
        self.plugins: dict[str, Plugin] = {}
        for entry in tier:
            plugin = self.engine.registry.plugins[entry.name](entry)
            plugin.open(self.session)
            self.plugins[entry.name] = plugin

    @property
    def hooks(self) -> Hooks:
        return self.session.hooks

    def job(self, name: str) -> Job:
        return self.session.jobs[f"ns/{name}"]

    def task(self, name: str) -> Task:
        return self.engine.cache.tasks[f"uid-{name}"]

    def tasks(self, *names: str) -> list[Task]:
        return [self.task(name) for name in names]

    def queue(self, name: str) -> Queue:
        return self.session.queues[name]


def names(tasks: Iterable[Task]) -> list[str]:
    return [task.name for task in tasks]


def cores(cpu: float, **others: int) -> Amounts:
    """Amounts that name cpu, and what else is given, and nothing more."""
    return (("cpu", int(cpu * 1000)), *others.items())


def asking(pod: Pod, requests: Amounts) -> Pod:
    """The pod with other requests; a place among the pods is always one of them."""
    return replace(pod, spec=replace(pod.spec, requests=(*requests, ("pods", 1))))


def offering(node: Node, **others: int) -> Node:
    """The node with further resources."""
    offered = (*node.allocatable, *others.items())
    return replace(node, allocatable=offered, capacity=offered)


def minimum(cpu: float, memory_gib: float = 0) -> Amounts:
    """A PodGroup's minResources without a count of pods."""
    return tuple((name, amount) for name, amount in amounts(cpu, memory_gib) if name != "pods")
