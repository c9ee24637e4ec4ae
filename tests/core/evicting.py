"""Clusters on which something is evicted: an engine in one call, and what came out in words."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from pumice.core.configuration import read_configuration
from pumice.core.decisions import Evict, PodConditionChanged, SessionResult
from pumice.core.engine import Engine
from pumice.core.registry import Plugin, Registry
from pumice.core.session.feasibility.views import ClassViews
from pumice.core.session.session import Session
from tests.core.builders import NOW_NS, fill

Tiers = Sequence[Sequence[str | Mapping[str, Any]]]

STOCK: Tiers = (
    ("priority", "gang", "conformance"),
    ("drf", "predicates", "proportion", "nodeorder"),
)
# Neither gangs nor shares keep anyone from being taken: priorities alone decide.
PLAIN: Tiers = (
    ("priority", {"name": "gang", "enablePreemptable": False}, "conformance"),
    ("predicates", "nodeorder"),
)


def engine(
    actions: str,
    tiers: Tiers,
    *objects: Any,
    plugins: Iterable[type[Plugin]] = (),
    **arguments: Any,
) -> Engine:
    """An engine full of objects, or lists of objects; arguments go to the last action."""
    last = actions.rpartition(",")[2].strip()
    registry = Registry(plugins)
    data = {
        "actions": actions,
        "tiers": [
            {"plugins": [{"name": p} if isinstance(p, str) else dict(p) for p in tier]}
            for tier in tiers
        ],
        "configurations": [{"name": last, "arguments": arguments}],
    }
    made = Engine(read_configuration(data, registry.catalog()), registry=registry)
    return fill(made, *objects)


def run(engine: Engine) -> SessionResult:
    result = engine.schedule(NOW_NS)
    assert not result.faults
    return result


def opened(engine: Engine) -> Session:
    """A session of the engine's with its plugins opened and no action run yet."""
    engine.cache.table.settle()
    session = Session(1, NOW_NS, engine.cache, engine.configuration, ClassViews())
    for tier in session.tiers:
        for options in tier:
            engine.registry.plugins[options.name](options).open(session)
    return session


def evicted(result: SessionResult) -> list[str]:
    """Names of evicted pods, in the order of decisions."""
    return [decision.name for decision in result.decisions if isinstance(decision, Evict)]


def nominated(result: SessionResult) -> dict[str, str]:
    """Nodes that waiting pods were promised."""
    changes = [s for s in result.statuses if isinstance(s, PodConditionChanged)]
    return {s.name: s.nominated_node_name for s in changes if s.nominated_node_name}


def reasons(result: SessionResult, job: str, author: str) -> list[tuple[str, str]]:
    """Codes and tasks of what an action said about a job."""
    for wait in result.waits:
        if wait.job == f"ns/{job}":
            return [(str(r.code), r.task) for r in wait.reasons if r.author == author]
    return []
