"""Engines in kube-batch's mode, and what they did, in short."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from typing import Any

from pumice.core.cache.settings import CacheSettings
from pumice.core.cache.tasks import Task
from pumice.core.configuration import Arguments, Configuration, PluginOptions
from pumice.core.decisions import Bind, Evict, SessionResult
from pumice.core.deltas import ClusterObject
from pumice.core.engine import Engine
from pumice.core.kubebatch import KUBE_BATCH
from pumice.core.kubebatch.cache import KubeBatchCache
from pumice.core.kubebatch.jobs import KubeBatchJob
from pumice.core.kubebatch.session import KubeBatchSession
from pumice.core.model.group import Namespace, PodDisruptionBudget
from pumice.core.model.pod import Pod
from pumice.core.session.feasibility.views import ClassViews
from tests.core import builders
from tests.core.builders import NOW_NS

ALL_ACTIONS = "reclaim allocate backfill preempt"
DEFAULT_TIERS = ("priority gang", "drf predicates proportion nodeorder")


def options(name: str, **flags: bool) -> PluginOptions:
    return PluginOptions(name, tuple(flags.items()))


def engine(
    actions: str = "allocate backfill",
    tiers: Iterable[str | Iterable[PluginOptions]] = DEFAULT_TIERS,
    *switches: str,
    arguments: Mapping[str, Mapping[str, object]] | None = None,
    **settings: Any,
) -> Engine:
    """An engine in kube-batch's mode; tiers are plugin names, or options."""
    given = arguments or {}
    read = tuple(
        tuple(PluginOptions(n, (), Arguments(given.get(n))) for n in tier.split())
        if isinstance(tier, str)
        else tuple(tier)
        for tier in tiers
    )
    cache = CacheSettings(**settings, compat=(KUBE_BATCH, *switches))
    return Engine(Configuration(tuple(actions.split()), read), cache)


def cluster(*objects: ClusterObject | Iterable[ClusterObject], of: Engine | None = None) -> Engine:
    """An engine that knows the default queue and these objects."""
    return builders.fill(of or engine(), builders.queue(), *objects)


def lone(name: str, cpu: float = 1, controller: str = "", **fields: Any) -> Pod:
    """A pod without a PodGroup."""
    return builders.pod(name, "", cpu, controller_uid=controller, **fields)


def foreign(pod: Pod) -> Pod:
    """The same pod, of another scheduler."""
    spec = dataclasses.replace(pod.spec, scheduler_name="default-scheduler")
    return dataclasses.replace(pod, spec=spec)


def budget(name: str, controller: str, minimum: int, **fields: Any) -> PodDisruptionBudget:
    return PodDisruptionBudget(
        f"uid-{name}", "ns", name, min_available=minimum, controller_uid=controller, **fields
    )


def namespace(name: str) -> Namespace:
    return Namespace(f"uid-ns-{name}", name)


def binds(result: SessionResult) -> dict[str, str]:
    return {d.name: d.node for d in result.decisions if isinstance(d, Bind)}


def evictions(result: SessionResult) -> list[str]:
    return [d.name for d in result.decisions if isinstance(d, Evict)]


def job_of(engine: Engine, id_: str) -> KubeBatchJob:
    job = engine.cache.jobs[id_]
    assert isinstance(job, KubeBatchJob)
    return job


def opened(engine: Engine) -> KubeBatchSession:
    """A session with its plugins open, before any action."""
    engine.cache.settle()
    assert isinstance(engine.cache, KubeBatchCache)
    session = KubeBatchSession(1, NOW_NS, engine.cache, engine.configuration, ClassViews())
    for tier in engine.configuration.tiers:
        for plugin in tier:
            engine.registry.plugins[plugin.name](plugin).open(session)
    return session


def task(engine: Engine, name: str) -> Task:
    return engine.cache.tasks[f"uid-{name}"]


def names(tasks: Iterable[Task]) -> list[str]:
    return [task.name for task in tasks]
