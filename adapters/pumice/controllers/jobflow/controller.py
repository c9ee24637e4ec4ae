"""The controllers of JobFlows and of JobTemplates."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from pumice.controllers.job.types import Job
from pumice.controllers.jobflow.reconcile import Observed, reconcile
from pumice.controllers.jobflow.types import BY_TEMPLATE, JobFlow, JobTemplate
from pumice.controllers.resources import JOB_FLOWS, JOB_TEMPLATES, JOBS
from pumice.controllers.runtime.acts import NOTHING, Patch, Plan
from pumice.controllers.runtime.controller import Caches, Controller
from pumice.controllers.runtime.objects import Key
from pumice.controllers.runtime.watches import Change, Watch, by_owner


def _by_template(job: Job) -> Iterable[Key]:
    """The template of a Job, which is in the Job's namespace."""
    namespace = job.metadata.namespace
    mark = job.metadata.annotation(BY_TEMPLATE) or job.metadata.label(BY_TEMPLATE)
    name = mark.removeprefix(f"{namespace}.")
    return ((namespace, name),) if name != mark and name else ()


def _by_templates(flow: JobFlow) -> Iterable[Key]:
    """The templates of a JobFlow, which have the names of its flows."""
    return {(flow.metadata.namespace, one.name) for one in flow.spec.flows or ()}


WATCHED_FLOWS: Final = Watch(JOB_FLOWS, JobFlow, indexes={"template": _by_templates})
WATCHED_TEMPLATES: Final = Watch(JOB_TEMPLATES, JobTemplate)
WATCHED_JOBS: Final = Watch(JOBS, Job, indexes={"owner": by_owner, "template": _by_template})


class JobFlowController(Controller[Observed]):
    """Creates Jobs from templates, in the order of a JobFlow."""

    name = "jobflow-controller"
    watches: Sequence[Watch[Any]] = (WATCHED_FLOWS, WATCHED_TEMPLATES, WATCHED_JOBS)

    def keys(self, change: Change[Any], caches: Caches) -> Iterable[Key]:
        metadata = change.latest.metadata
        if change.watch == WATCHED_FLOWS:
            return (metadata.key,)
        if change.watch == WATCHED_TEMPLATES:
            # JobFlows may wait for a new template.
            flows = caches[WATCHED_FLOWS].by("template", metadata.key) if change.old is None else ()
            return [flow.metadata.key for flow in flows]
        owner = metadata.controller_key(JOB_FLOWS)
        return (owner,) if owner is not None else ()

    def observe(self, key: Key, caches: Caches, now_ms: int) -> Observed | None:
        flow = caches[WATCHED_FLOWS].get(*key)
        if flow is None:
            return None
        jobs = caches[WATCHED_JOBS].by("owner", flow.metadata.uid)
        names = [one.name for one in flow.spec.flows or ()]
        templates = ((name, caches[WATCHED_TEMPLATES].get(key[0], name)) for name in names)
        return Observed(
            flow,
            {job.metadata.name: job for job in jobs},
            {name: template for name, template in templates if template is not None},
        )

    def reconcile(self, observed: Observed) -> Plan:
        return reconcile(observed)


@dataclass(frozen=True, slots=True)
class ObservedTemplate:
    """A JobTemplate, and the names of the Jobs that were created from it."""

    template: JobTemplate
    jobs: tuple[str, ...]


class JobTemplateController(Controller[ObservedTemplate]):
    """Lists in a JobTemplate the Jobs that were created from it."""

    name = "jobtemplate-controller"
    watches: Sequence[Watch[Any]] = (WATCHED_TEMPLATES, WATCHED_JOBS)

    def keys(self, change: Change[Any], caches: Caches) -> Iterable[Key]:
        if change.watch == WATCHED_TEMPLATES:
            return (change.latest.metadata.key,)
        is_update = change.old is not None and change.new is not None
        return () if is_update else _by_template(change.latest)

    def observe(self, key: Key, caches: Caches, now_ms: int) -> ObservedTemplate | None:
        template = caches[WATCHED_TEMPLATES].get(*key)
        if template is None:
            return None
        jobs = caches[WATCHED_JOBS].by("template", key)
        return ObservedTemplate(template, tuple(job.metadata.name for job in jobs))

    def reconcile(self, observed: ObservedTemplate) -> Plan:
        metadata = observed.template.metadata
        jobs, stored = list(observed.jobs), observed.template.status.job_depends_on_list
        if metadata.is_terminating or jobs == (stored or []):
            return NOTHING
        return Plan.of([Patch.of_status(JOB_TEMPLATES, metadata, {"jobDependsOnList": jobs})])
