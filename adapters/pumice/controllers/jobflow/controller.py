"""The controllers of JobFlows and of JobTemplates."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from pumice.controllers.job.types import Job
from pumice.controllers.jobflow.reconcile import Seen, reconcile
from pumice.controllers.jobflow.types import BY_TEMPLATE, KIND, JobFlow, JobTemplate
from pumice.controllers.options import ControllerOptions
from pumice.controllers.resources import JOB_FLOWS, JOB_TEMPLATES, JOBS
from pumice.controllers.runtime.acts import NOTHING, Patch, Plan
from pumice.controllers.runtime.controller import Caches, Key
from pumice.controllers.runtime.watches import Change, Watch, by_owner


def _by_template(job: Job) -> Iterable[Key]:
    """The template of a Job, which is in the Job's namespace."""
    namespace = job.metadata.namespace
    mark = job.metadata.annotation(BY_TEMPLATE) or job.metadata.label(BY_TEMPLATE)
    name = mark.removeprefix(f"{namespace}.")
    return ((namespace, name),) if name != mark and name else ()


def _by_flow(flow: JobFlow) -> Iterable[Key]:
    return {(flow.metadata.namespace, one.name) for one in flow.spec.flows or ()}


WATCHED_FLOWS: Final = Watch(JOB_FLOWS, JobFlow, indexes={"template": _by_flow})
WATCHED_TEMPLATES: Final = Watch(JOB_TEMPLATES, JobTemplate)
WATCHED_JOBS: Final = Watch(JOBS, Job, indexes={"owner": by_owner, "template": _by_template})


class JobFlowController:
    """Creates Jobs from templates, in the order of a JobFlow."""

    name = "jobflow-controller"
    watches: Sequence[Watch[Any]] = (WATCHED_FLOWS, WATCHED_TEMPLATES, WATCHED_JOBS)

    def __init__(self, options: ControllerOptions) -> None:
        self._options = options

    def keys(self, change: Change[Any], caches: Caches) -> Iterable[Key]:
        metadata = change.seen.metadata
        if change.watch == WATCHED_FLOWS:
            return (metadata.key,)
        if change.watch == WATCHED_TEMPLATES:
            # Flows may wait for a template.
            found = caches[WATCHED_FLOWS].by("template", metadata.key)
            return [flow.metadata.key for flow in found] if change.old is None else ()
        owner = metadata.controller()
        return ((metadata.namespace, owner.name),) if owner and owner.kind == KIND else ()

    def look(self, key: Key, caches: Caches, now_ms: int) -> Seen | None:
        flow = caches[WATCHED_FLOWS].get(*key)
        if flow is None:
            return None
        jobs = caches[WATCHED_JOBS].by("owner", flow.metadata.uid)
        names = [one.name for one in flow.spec.flows or ()]
        templates = ((name, caches[WATCHED_TEMPLATES].get(key[0], name)) for name in names)
        return Seen(
            flow,
            {job.metadata.name: job for job in jobs},
            {name: template for name, template in templates if template is not None},
        )

    def reconcile(self, seen: Seen) -> Plan:
        return reconcile(seen)


@dataclass(frozen=True, slots=True)
class Used:
    """A template, and the names of the Jobs that were made from it."""

    template: JobTemplate
    jobs: tuple[str, ...]


class JobTemplateController:
    """Lists in a JobTemplate the Jobs that were created from it."""

    name = "jobtemplate-controller"
    watches: Sequence[Watch[Any]] = (WATCHED_TEMPLATES, WATCHED_JOBS)

    def __init__(self, options: ControllerOptions) -> None:
        self._options = options

    def keys(self, change: Change[Any], caches: Caches) -> Iterable[Key]:
        if change.watch == WATCHED_TEMPLATES:
            return (change.seen.metadata.key,)
        return (
            () if change.old is not None and change.new is not None else _by_template(change.seen)
        )

    def look(self, key: Key, caches: Caches, now_ms: int) -> Used | None:
        template = caches[WATCHED_TEMPLATES].get(*key)
        if template is None:
            return None
        jobs = caches[WATCHED_JOBS].by("template", key)
        return Used(template, tuple(job.metadata.name for job in jobs))

    def reconcile(self, seen: Used) -> Plan:
        metadata = seen.template.metadata
        if metadata.is_terminating or seen.jobs == tuple(
            seen.template.status.job_depends_on_list or ()
        ):
            return NOTHING
        body = {"status": {"jobDependsOnList": list(seen.jobs)}}
        patch = Patch(JOB_TEMPLATES, *metadata.key, metadata.uid, body, subresource="status")
        return Plan(((patch,),))
