"""The plugin svc, which creates a headless Service, a ConfigMap with hosts, and a NetworkPolicy."""

from collections.abc import Mapping
from typing import ClassVar, Final

from pumice.controllers.job.plugins.plugin import (
    JobObject,
    JobPlugin,
    PodContext,
    Value,
    containers,
    hosts,
    object_body,
    pod_selector,
)
from pumice.controllers.job.types import Job, JobSpec
from pumice.controllers.resources import CONFIG_MAPS, NETWORK_POLICIES, SERVICES
from pumice.controllers.runtime.objects import Manifest

_MOUNT_PATH: Final = "/etc/volcano"


def hosts_data(job: Job, spec: JobSpec) -> dict[str, str]:
    """The data of the ConfigMap: the hosts of each task."""
    found = {}
    for task in spec.tasks or ():
        names = hosts(job, task)
        key = task.name.replace("-", "_")
        found[f"{key}.host"] = "\n".join(names)
        found[f"VC_{key.upper()}_HOSTS"] = ",".join(names)
        found[f"VC_{key.upper()}_NUM"] = str(len(names))
    return found


class SvcPlugin(JobPlugin):
    """Gives the pods of a job host names, and lists the hosts of all tasks."""

    defaults: ClassVar[Mapping[str, Value]] = {
        "publish-not-ready-addresses": False,
        "disable-network-policy": False,
        "inject-hosts-env": True,
    }

    def objects(self, job: Job, spec: JobSpec) -> list[JobObject]:
        name, pods = job.metadata.name, pod_selector(job)
        config_map = object_body(job, CONFIG_MAPS, _name(job), data=hosts_data(job, spec))
        service = object_body(
            job,
            SERVICES,
            name,
            spec={
                "clusterIP": "None",
                "selector": pods,
                "publishNotReadyAddresses": self._values["publish-not-ready-addresses"],
            },
        )
        found = [JobObject(CONFIG_MAPS, config_map, follows_job=True), JobObject(SERVICES, service)]
        if not self._values["disable-network-policy"]:
            policy = object_body(
                job,
                NETWORK_POLICIES,
                name,
                spec={
                    "podSelector": {"matchLabels": pods},
                    "ingress": [{"from": [{"podSelector": {"matchLabels": pods}}]}],
                    "policyTypes": ["Ingress"],
                },
            )
            found.append(JobObject(NETWORK_POLICIES, policy))
        return found

    def change_pod(self, context: PodContext, body: Manifest) -> None:
        job, pod = context.job, body["spec"]
        pod["hostname"] = pod.get("hostname") or body["metadata"]["name"]
        pod["subdomain"] = pod.get("subdomain") or job.metadata.name
        name = _name(job)
        pod["volumes"].append({"name": name, "configMap": {"name": name}})
        variables = self._variables(context)
        for container in containers(body, init=True):
            container["env"] += variables
            container["volumeMounts"].append({"name": name, "mountPath": _MOUNT_PATH})

    def _variables(self, context: PodContext) -> list[Manifest]:
        if not self._values["inject-hosts-env"]:
            return []
        keys = [task.name.replace("-", "_").upper() for task in context.spec.tasks or ()]
        names = [f"VC_{key}_{what}" for key in keys for what in ("HOSTS", "NUM")]
        source = _name(context.job)
        return [
            {"name": name, "valueFrom": {"configMapKeyRef": {"name": source, "key": name}}}
            for name in names
        ]


def _name(job: Job) -> str:
    return f"{job.metadata.name}-svc"
