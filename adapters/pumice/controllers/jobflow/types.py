"""JobFlows and JobTemplates, as far as their controllers read them."""

from typing import Final

import msgspec

from pumice.controllers.runtime.objects import Manifest, Watched

API_VERSION: Final = "flow.volcano.sh/v1alpha1"
KIND: Final = "JobFlow"
BY_TEMPLATE: Final = "volcano.sh/createdByJobTemplate"
BY_FLOW: Final = "volcano.sh/createdByJobFlow"


class _TaskPhase(msgspec.Struct, rename="camel"):
    task_name: str = ""
    phase: str = ""


class Probe(msgspec.Struct, rename="camel"):
    """Further conditions on the Jobs of the targets."""

    http_get_list: list[Manifest] | None = None
    tcp_socket_list: list[Manifest] | None = None
    task_status_list: list[_TaskPhase] | None = None


class FlowDependsOn(msgspec.Struct):
    """What must be before the Job of a flow is made."""

    targets: list[str] | None = None
    probe: Probe | None = None


class _Patch(msgspec.Struct, rename="camel"):
    job_spec: Manifest | None = None


class Flow(msgspec.Struct, rename="camel"):
    """One Job of a JobFlow."""

    name: str = ""
    depends_on: FlowDependsOn | None = None
    patch: _Patch | None = None

    @property
    def targets(self) -> list[str]:
        return (self.depends_on.targets if self.depends_on else None) or []


class JobFlowSpec(msgspec.Struct, rename="camel"):
    """The Jobs of a JobFlow."""

    flows: list[Flow] | None = None
    job_retain_policy: str = ""


class JobFlow(Watched):
    """A JobFlow; its status is compared as a whole."""

    spec: JobFlowSpec = msgspec.field(default_factory=JobFlowSpec)
    status: Manifest = msgspec.field(default_factory=dict)

    @property
    def phase(self) -> str:
        return str((self.status.get("state") or {}).get("phase", ""))

    def job_name(self, flow: str) -> str:
        return f"{self.metadata.name}-{flow}"


class TemplateStatus(msgspec.Struct, rename="camel"):
    """Jobs that were made from a template."""

    job_depends_on_list: list[str] | None = None


class JobTemplate(Watched):
    """A JobTemplate."""

    spec: Manifest = msgspec.field(default_factory=dict)
    status: TemplateStatus = msgspec.field(default_factory=TemplateStatus)
