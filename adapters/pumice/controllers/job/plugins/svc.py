"""The svc plugin: names of pods by a headless Service, hosts in a ConfigMap, a NetworkPolicy."""

from typing import Final

from pumice.controllers.job.plugins.arguments import parse
from pumice.controllers.job.plugins.context import (
    JobObject,
    PodContext,
    containers,
    host_indexes,
    host_of,
    object_body,
)
from pumice.controllers.job.types import JOB_NAME, JOB_NAMESPACE, Job, JobSpec
from pumice.controllers.resources import CONFIG_MAPS, NETWORK_POLICIES, SERVICES
from pumice.controllers.runtime.objects import Manifest

_MOUNT_PATH: Final = "/etc/volcano"


def hosts(job: Job, spec: JobSpec) -> dict[str, str]:
    """The content of the ConfigMap: the hosts of each task."""
    found = {}
    for task in spec.tasks or ():
        names = [host_of(job, task, index) for index in host_indexes(task)]
        key = task.name.replace("-", "_")
        found[f"{key}.host"] = "\n".join(names)
        found[f"VC_{key.upper()}_HOSTS"] = ",".join(names)
        found[f"VC_{key.upper()}_NUM"] = str(len(names))
    return found


class SvcPlugin:
    """Lets the pods of a job find each other."""

    def __init__(self, arguments: list[str]) -> None:
        defaults = {
            "publish-not-ready-addresses": False,
            "disable-network-policy": False,
            "inject-hosts-env": True,
        }
        given = parse(arguments, defaults)
        self.problem = given.problem
        self._publishes = given.is_set("publish-not-ready-addresses")
        self._has_policy = not given.is_set("disable-network-policy")
        self._injects = given.is_set("inject-hosts-env")

    def objects(self, job: Job, spec: JobSpec) -> list[JobObject]:
        name = job.metadata.name
        config_map = object_body(job, "v1", "ConfigMap", _name(job), data=hosts(job, spec))
        pods = {JOB_NAME: name, JOB_NAMESPACE: job.metadata.namespace}
        service = object_body(
            job,
            "v1",
            "Service",
            name,
            spec={
                "clusterIP": "None",
                "selector": pods,
                "publishNotReadyAddresses": self._publishes,
            },
        )
        found = [JobObject(CONFIG_MAPS, config_map, follows=True), JobObject(SERVICES, service)]
        if self._has_policy:
            policy = object_body(
                job,
                "networking.k8s.io/v1",
                "NetworkPolicy",
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
        if not self._injects:
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
