"""The controllers by Volcano's names."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from pumice.controllers.colocation.controller import ColocationController
from pumice.controllers.cronjob.controller import CronJobController
from pumice.controllers.gc.controller import GarbageCollector
from pumice.controllers.hypernode.controller import HyperNodeController
from pumice.controllers.job.controller import JobController
from pumice.controllers.jobflow.controller import JobFlowController, JobTemplateController
from pumice.controllers.podgroup.controller import PodGroupController
from pumice.controllers.queue.controller import QueueController
from pumice.controllers.runtime.controller import Controller
from pumice.controllers.sharding.controller import ShardingController

CONTROLLERS: Final[Mapping[str, type[Controller[Any]]]] = {
    controller.name: controller
    for controller in (
        JobController,
        GarbageCollector,
        PodGroupController,
        QueueController,
        CronJobController,
        JobFlowController,
        JobTemplateController,
        HyperNodeController,
        ColocationController,
        ShardingController,
    )
}
# Controllers that run only if the list has their name, or `*` without exclusions.
OFF_BY_DEFAULT: Final = frozenset({"sharding-controller"})
DEFAULT_SELECTION: Final = "*,-sharding-controller"


def selected(terms: Sequence[str]) -> list[str]:
    """The controllers that a list such as `*,-job-controller` selects. Raises ValueError.

    A list of exclusions alone selects all other controllers that run by default.
    """
    on, off, has_star = set[str](), set[str](), False
    for term in terms:
        if term == "*":
            has_star = True
            continue
        name = term.lstrip("+-") if term[:1] in ("+", "-") else term
        if name not in CONTROLLERS:
            allowed = ", ".join(("*", *sorted(CONTROLLERS)))
            raise ValueError(f"--controllers: unknown controller {name!r}; allowed: {allowed}")
        (off if term.startswith("-") else on).add(name)
    if both := sorted(on & off):
        raise ValueError(f"--controllers: {', '.join(both)} is both selected and excluded")
    if not has_star and not on:
        has_star, off = True, off | OFF_BY_DEFAULT
    return [name for name in CONTROLLERS if name in on or (has_star and name not in off)]
