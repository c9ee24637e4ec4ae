"""JobFlows and JobTemplates, as far as their controllers read them."""

from typing import Final

import msgspec

from pumice.controllers.runtime.objects import ApiObject, Manifest

BY_TEMPLATE: Final = "volcano.sh/createdByJobTemplate"
BY_FLOW: Final = "volcano.sh/createdByJobFlow"


class FlowDependsOn(msgspec.Struct):
    """The conditions under which the Job of a flow is created."""

    targets: list[str] | None = None
    # Further conditions, which have no effect.
    probe: Manifest | None = None


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


class JobFlow(ApiObject):
    """A JobFlow. Its status is compared as a whole."""

    spec: JobFlowSpec = msgspec.field(default_factory=JobFlowSpec)
    status: Manifest = msgspec.field(default_factory=dict)

    @property
    def phase(self) -> str:
        return str((self.status.get("state") or {}).get("phase", ""))

    def job_name(self, flow: str) -> str:
        return f"{self.metadata.name}-{flow}"


class TemplateStatus(msgspec.Struct, rename="camel"):
    """Names of the Jobs that were created from a template."""

    job_depends_on_list: list[str] | None = None


class JobTemplate(ApiObject):
    """A JobTemplate."""

    spec: Manifest = msgspec.field(default_factory=dict)
    status: TemplateStatus = msgspec.field(default_factory=TemplateStatus)
