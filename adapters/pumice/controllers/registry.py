"""The controllers by the names that Volcano gives them."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

from pumice.controllers.colocation.controller import ColocationController
from pumice.controllers.cronjob.controller import CronJobController
from pumice.controllers.gc.controller import GarbageCollector
from pumice.controllers.hypernode.controller import HyperNodeController
from pumice.controllers.job.controller import JobController
from pumice.controllers.jobflow.controller import JobFlowController, JobTemplateController
from pumice.controllers.options import ControllerOptions
from pumice.controllers.podgroup.controller import PodGroupController
from pumice.controllers.queue.controller import QueueController
from pumice.controllers.runtime.controller import Controller
from pumice.controllers.sharding.controller import ShardingController

CONTROLLERS: Final[Mapping[str, Callable[[ControllerOptions], Controller[Any]]]] = {
    "job-controller": JobController,
    "gc-controller": GarbageCollector,
    "pg-controller": PodGroupController,
    "queue-controller": QueueController,
    "cronjob-controller": CronJobController,
    "jobflow-controller": JobFlowController,
    "jobtemplate-controller": JobTemplateController,
    "hyperNode-controller": HyperNodeController,
    "colocation-config-controller": ColocationController,
    "sharding-controller": ShardingController,
}
# Controllers that run only when they are named, or with `*` alone.
OFF_BY_DEFAULT: Final = frozenset({"sharding-controller"})
DEFAULT_SELECTION: Final = "*,-sharding-controller"


def selected(terms: Sequence[str]) -> list[str]:
    """The controllers that a list such as `*,-job-controller` selects. Raises ValueError.

    A list that only has exclusions selects all others that run by default.
    """
    on, off, has_star = set[str](), set[str](), False
    for term in terms:
        if term == "*":
            has_star = True
            continue
        name = term.lstrip("+-") if term[:1] in ("+", "-") else term
        if name not in CONTROLLERS:
            raise ValueError(
                f"--controllers: unknown controller {name!r}; allowed: {', '.join(_allowed())}"
            )
        (off if term.startswith("-") else on).add(name)
    if both := sorted(on & off):
        raise ValueError(f"--controllers: {', '.join(both)} is both selected and excluded")
    if not has_star and not on:
        has_star, off = True, off | OFF_BY_DEFAULT
    return [name for name in CONTROLLERS if name in on or (has_star and name not in off)]


def _allowed() -> Iterable[str]:
    return ("*", *sorted(CONTROLLERS))
