"""Objects that the admission policies of deploy/ take and refuse.

Texts of refusals are what Volcano's own tests look for, where they look for any.
"""

from typing import Any

from tests.controlplane.client import Object

NAMESPACE = "admission"
JOB, FLOW = "batch.volcano.sh/v1alpha1", "flow.volcano.sh/v1alpha1"
SCHEDULING, TOPOLOGY = "scheduling.volcano.sh/v1beta1", "topology.volcano.sh/v1alpha1"
CLUSTER = {"Queue", "HyperNode"}


def thing(version: str, kind: str, name: str, spec: Object, **metadata: Any) -> Object:
    where = {} if kind in CLUSTER else {"namespace": NAMESPACE}
    return {
        "apiVersion": version,
        "kind": kind,
        "metadata": {"name": name, **where, **metadata},
        "spec": spec,
    }


def task(name: str = "work", replicas: int = 1, cpu: object = "1", **more: Any) -> Object:
    amounts = {"requests": {"cpu": cpu}}
    container = {"name": "c", "image": "i", "resources": amounts, **more.pop("container", {})}
    spec = {"containers": [container], **more.pop("pod", {})}
    return {"name": name, "replicas": replicas, "template": {"spec": spec}, **more}


def job(*tasks: Object, name: str = "one", **spec: Any) -> Object:
    return thing(JOB, "Job", name, {"tasks": list(tasks) or [task()], **spec})


def policies(*given: Object) -> Object:
    return job(policies=list(given))


def after(*names: str) -> Object:
    return {"dependsOn": {"name": list(names)}}


def queue(name: str = "new", annotations: Object | None = None, **spec: Any) -> Object:
    return thing(SCHEDULING, "Queue", name, spec, annotations=annotations or {})


def hierarchy(path: str, weights: str) -> Object:
    return {"volcano.sh/hierarchy": path, "volcano.sh/hierarchy-weights": weights}


def group(**spec: Any) -> Object:
    return thing(SCHEDULING, "PodGroup", "one", spec)


def flow(**flows: list[str]) -> Object:
    made = [{"name": name, "dependsOn": {"targets": deps}} for name, deps in flows.items()]
    return thing(FLOW, "JobFlow", "one", {"flows": made})


def cron(schedule: str = "* * * * *", name: str = "one", **spec: Any) -> Object:
    template = {"spec": {"tasks": [task()]}}
    spec = {"schedule": schedule, "jobTemplate": template, **spec}
    return thing(JOB, "CronJob", name, spec)


def node_group(**selector: Any) -> Object:
    spec = {"tier": 1, "members": [{"type": "Node", "selector": selector}]}
    return thing(TOPOLOGY, "HyperNode", "one", spec)


def pod(scheduler: str = "volcano", **annotations: str) -> Object:
    notes = {f"volcano.sh/{key.replace('_', '-')}": text for key, text in annotations.items()}
    spec = {"schedulerName": scheduler, "containers": [{"name": "c", "image": "i"}]}
    return thing("v1", "Pod", "one", spec, annotations=notes)


def empty(body: Object) -> Object:
    return {name: part for name, part in body.items() if name != "spec"}


BOTH = {"highestTierAllowed": 1, "highestTierName": "rack"}
PARTITIONS = {"totalPartitions": 2, "partitionSize": 2}
CLAIM = {"accessModes": ["ReadWriteOnce"]}
ABORT = {"action": "AbortJob", "event": "PodFailed"}

TAKEN: dict[str, Object] = {
    "a job": job(),
    "a job with all policies": policies(
        ABORT,
        {"action": "RestartJob", "events": ["PodEvicted", "TaskFailed"], "event": "PodEvicted"},
        {"action": "RestartPartition", "exitCode": 3},
    ),
    "a job with any event": policies({"action": "CompleteJob", "event": "*"}),
    "a job with dependencies": job(
        task("a"), task("b", **after("a")), task("c", **after("a", "b")), task("d", **after("c"))
    ),
    "a job with a long chain": job(
        task("t0"), *[task(f"t{n}", **after(f"t{n - 1}")) for n in range(1, 15)]
    ),
    "a job with partitions": job(
        task(replicas=4, minAvailable=2, partitionPolicy={**PARTITIONS, "minPartitions": 1})
    ),
    "a job with mpi and flags of two words": job(
        task("launcher"), plugins={"mpi": ["--port", "22", "--master", "launcher"]}
    ),
    "policies with timeouts": policies(
        {"event": "PodFailed", "action": "RestartJob", "timeout": "1h1m30.5s"},
        {"event": "PodPending", "action": "AbortJob", "timeout": "0"},
    ),
    "a job with mpi": job(task("launcher"), plugins={"mpi": ["--master=launcher"], "env": []}),
    "a job with volumes": job(
        volumes=[
            {"mountPath": "/a", "volumeClaimName": "a"}, {"mountPath": "/b", "volumeClaim": CLAIM}
        ]
    ),
    "a job with whole CPUs": job(task(topologyPolicy="restricted", cpu=2)),
    "a job in a new queue": job(queue="fresh"),
    "a queue": queue(capability={"cpu": 2}, deserved={"cpu": "1500m"}, guarantee={"resource": {"cpu": 1}}),
    "a queue below another": queue(parent="parent", capability={"cpu": "4"}, deserved={"cpu": 2}),
    "a queue with a hierarchy": queue(annotations=hierarchy("root/a/b", "1/2/0.5")),
    "a PodGroup": group(minMember=1, networkTopology={"highestTierAllowed": 1}),
    "a flow that is named twice": thing(FLOW, "JobFlow", "one", {"flows": [{"name": "a"}] * 2}),
    "an event twice in one policy": policies(
        {"action": "TerminateJob", "events": ["PodEvicted", "PodFailed", "PodEvicted"]}
    ),
    "a flow without flows": thing(FLOW, "JobFlow", "one", {"flows": []}),
    "a flow": flow(a=[], b=["a"], c=["a", "b"]),
    "a schedule": cron("*/5 0-23 1,15 jan-dec 0-6", timeZone="America/Argentina/Buenos_Aires"),
    "a schedule in a word": cron("@hourly"),
    "a schedule with a duration": cron("@every 1h30m"),
    "a HyperNode": node_group(regexMatch={"pattern": "^node-[0-9]+$"}),
    "a budget in percent": pod(jdb_min_available="50%"),
    "a pod of others": pod("default-scheduler", jdb_min_available="none"),
}  # fmt: skip

REFUSED: dict[str, tuple[Object, str]] = {
    "no tasks": (thing(JOB, "Job", "one", {"queue": "default"}), "No task specified in job spec"),
    "negative minAvailable": (job(minAvailable=-1), "should be greater than or equal to 0"),
    "negative maxRetry": (job(maxRetry=-1), "should be greater than or equal to 0"),
    "negative ttl": (job(ttlSecondsAfterFinished=-1), "should be greater than or equal to 0"),
    "negative replicas": (job(task(replicas=-1)), "should be greater than or equal to 0"),
    "negative least": (job(task(minAvailable=-1)), "should be greater than or equal to 0"),
    "name of a task": (job(task("Task_1")), "should match"),
    "an empty mount": (
        job(volumes=[{"mountPath": "", "volumeClaimName": "a"}]), "should be at least 1 chars long"
    ),
    "negative weight": (queue(weight=-1), "should be greater than or equal to 1"),
    "an empty name": (node_group(exactMatch={"name": ""}), "should be at least 1 chars long"),
    "an empty pattern": (node_group(regexMatch={"pattern": ""}), "should be at least 1 chars long"),
    "name of a node": (node_group(exactMatch={"name": "Bad_Name"}), "should match"),
    "one of two hierarchies": (queue(annotations={"volcano.sh/hierarchy": "root/a"}), "denied"),
    "a negative weight": (queue(annotations=hierarchy("root/a/b", "1/-1/3")), "denied"),
    "guarantee of another": (
        queue(deserved={"cpu": 1}, guarantee={"resource": {"memory": 1}}), "must be >= guarantee"
    ),
    "minAvailable of a task": (job(task(minAvailable=2)), "'minAvailable' is greater than 'replicas' in task"),
    "minAvailable of a job": (job(minAvailable=2), "job 'minAvailable' should not be greater than total replicas"),
    "a task twice": (job(task(), task()), "duplicated task name"),
    "both tiers": (job(networkTopology=BOTH), "not both"),
    "both tiers of a partition": (
        job(task(replicas=4, partitionPolicy={**PARTITIONS, "networkTopology": BOTH})), "not both"
    ),
    "partitions": (job(task(replicas=3, partitionPolicy=PARTITIONS)), "totalPartitions times"),
    "partitions that are needed": (
        job(task(replicas=4, minAvailable=3, partitionPolicy={**PARTITIONS, "minPartitions": 1})),
        "minPartitions times",
    ),
    "event and exit code": (
        policies({**ABORT, "exitCode": 1}), "must not specify event and exitCode simultaneously"
    ),
    "neither": (
        policies({"action": "AbortJob"}), "either event and exitCode should be specified"
    ),
    "internal event": (policies({**ABORT, "event": "OutOfSync"}), "event of a policy; allowed"),
    "action": (policies({**ABORT, "action": "SyncJob"}), "invalid policy action"),
    "action of an exit code": (policies({"action": "Dance", "exitCode": 1}), "action of a policy"),
    "an event twice": (policies(ABORT, ABORT), "duplicate event"),
    "an event twice in a task": (job(task(policies=[ABORT, ABORT])), "the same event"),
    "any and one": (
        policies(ABORT, {"action": "AbortJob", "event": "*"}),
        "if there's * here, no other policy should be here",
    ),
    "exit code 0": (
        policies({"action": "AbortJob", "exitCode": 0}), "0 is not a valid error code"
    ),
    "an exit code twice": (
        policies(*[{"action": "AbortJob", "exitCode": 1}] * 2), "duplicate exitCode"
    ),
    "a long name": (job(name="a" * 64), "more than 63 characters"),
    "a long name of a pod": (job(task("b" * 30), name="a" * 40), "more than 63 characters together"),
    "a plugin": (job(plugins={"magic": []}), "spec.plugins; allowed"),
    "mpi without the master of two words": (
        job(plugins={"mpi": ["--master", "launcher"]}),
        "needs its master task",
    ),
    "a timeout without a unit": (
        policies({"event": "PodFailed", "action": "RestartJob", "timeout": "30"}),
        "invalid duration",
    ),
    "a timeout of a task in words": (
        job(task(policies=[{"event": "PodPending", "action": "AbortJob", "timeout": "5 min"}])),
        "invalid duration",
    ),
    "mpi without its master": (job(plugins={"mpi": []}), "needs its master task"),
    "a mount twice": (
        job(volumes=[{"mountPath": "/a", "volumeClaimName": n} for n in "ab"]), "duplicated mountPath"
    ),
    "no claim": (job(volumes=[{"mountPath": "/a"}]), "either VolumeClaim or VolumeClaimName must be specified"),
    "two claims": (
        job(volumes=[{"mountPath": "/a", "volumeClaim": CLAIM, "volumeClaimName": "a"}]),
        "either VolumeClaim or VolumeClaimName must be specified",
    ),
    "name of a claim": (job(volumes=[{"mountPath": "/a", "volumeClaimName": "A B"}]), "no name of"),
    "an unknown dependency": (job(task("a", **after("b"))), "does not exist"),
    "a cycle": (job(task("a", **after("b")), task("b", **after("a")), task("c")), "a cycle"),
    "a cycle of one": (job(task("a", **after("a"))), "a cycle"),
    "one container in place of a list": (
        job(task(pod={"containers": {"name": "c", "image": "i"}})),
        "spec.tasks[0].template.spec.containers in body must be of type array",
    ),
    "an empty job": (empty(job()), "spec: Required value"),
    "an empty schedule": (empty(cron()), "spec: Required value"),
    "an empty HyperNode": (empty(node_group()), "spec: Required value"),
    "labels of pods that are a list": (
        job({"name": "w", "template": {"metadata": {"labels": ["a"]}}}),
        "template.metadata.labels in body must be of type object",
    ),
    "an environment that is a map": (
        job(task(container={"env": {"A": "b"}})),
        "containers[0].env in body must be of type array",
    ),
    "no containers": (job(task(pod={"containers": []})), "containers is empty"),
    "name of a container": (job(task(container={"name": "A B"})), "a container whose name"),
    "an amount": (job(task(cpu="2.5x")), "no quantity"),
    "a negative amount": (job(task(cpu="-1")), "negative"),
    "a limit": (
        job(task(container={"resources": {"requests": {"cpu": 2}, "limits": {"cpu": "1"}}})),
        "more than its limit",
    ),
    "restart policy": (job(task(pod={"restartPolicy": "Perhaps"})), "restartPolicy; allowed"),
    "parts of CPUs": (job(task(topologyPolicy="restricted", cpu="1500m")), "whole number of CPUs"),
    "a closed queue": (job(queue="closed"), "queue closed is Closed"),
    "a closing queue": (job(queue="closing"), "queue closing is Closing"),
    "the root": (job(queue="root"), "queue root takes no jobs"),
    "a parent": (job(queue="parent"), "has queues below it, such as child"),
    "a group in a closed queue": (group(queue="closed"), "queue closed is Closed"),
    "both tiers of a group": (group(networkTopology=BOTH), "not both"),
    "both tiers of a sub-group": (
        group(subGroupPolicy=[{"name": "a", "networkTopology": BOTH}]), "not both"
    ),
    "a negative share": (queue(capability={"cpu": "-1"}), "spec.capability has a negative amount"),
    "half a GPU": (queue(deserved={"example.com/gpu": "500m"}), "spec.deserved has a fraction"),
    "a guarantee alone": (queue(guarantee={"resource": {"cpu": 1}}), "must be >= guarantee"),
    "too much deserved": (
        queue(deserved={"cpu": 3}, capability={"cpu": 2}), "must be <= capability"
    ),
    "its own parent": (queue(parent="new"), "spec.parent is the queue itself"),
    "paths of two lengths": (queue(annotations=hierarchy("root/a", "1")), "must have the same length"),
    "a weight": (queue(annotations=hierarchy("root/a", "1/0")), "not a positive number"),
    "above another": (queue(annotations=hierarchy("root/tree", "1/1")), "queue leaf is below it"),
    "more than the parent": (
        queue(parent="parent", capability={"cpu": 100}), "larger than that of the parent parent"
    ),
    "deserved without the parent": (
        queue(parent="parent", deserved={"memory": 1}), "spec.deserved is larger than that of the"
    ),
    "an unknown target": (flow(a=["b"]), "jobflow Flow is not DAG: vertex is not defined"),
    "a cycle of flows": (flow(a=["b"], b=["a"]), "jobflow Flow is not DAG"),
    "a flow after itself": (flow(a=["a"]), "jobflow Flow is not DAG"),
    "no schedule": (cron(""), "spec.schedule; allowed"),
    "a zone in the schedule": (cron("TZ=UTC * * * * *"), "use spec.timeZone"),
    "four fields": (cron("* * * *"), "spec.schedule; allowed"),
    "minute 60": (cron("60 * * * *"), "above 59 in field 1"),
    "day 7": (cron("* * * * 1-7"), "above 6 in field 5"),
    "no zone": (cron(timeZone=""), "spec.timeZone; allowed"),
    "the local zone": (cron(timeZone="LOCAL"), "spec.timeZone; allowed"),
    "a long name of a CronJob": (cron(name="a" * 53), "more than 52 characters"),
    "no members": (thing(TOPOLOGY, "HyperNode", "one", {"tier": 1}), "spec.members is empty"),
    "a regular expression": (node_group(regexMatch={"pattern": "("}), "regexp"),
    "a budget of 0": (pod(jdb_min_available="0"), "must be a positive integer"),
    "a budget of 100%": (pod(jdb_max_unavailable="100%"), "percentage which between 1% ~ 99%"),
    "two budgets": (
        pod(jdb_min_available="1", jdb_max_unavailable="1"), "not allow configure multiple annotations"
    ),
}  # fmt: skip

UPDATES: dict[str, tuple[Object, str]] = {
    "replicas": ({"tasks": [task(replicas=3, minAvailable=1)], "minAvailable": 1}, ""),
    "priority": ({"priorityClassName": "high"}, ""),
    "queue": ({"queue": "fresh"}, "job updates may not change fields other than"),
    "another task": ({"tasks": [task(), task("b")]}, "job updates may not add or remove tasks"),
    "template": ({"tasks": [task(cpu="2")]}, "spec.tasks[].template cannot change"),
    "policies": ({"policies": [ABORT]}, "spec.policies cannot change"),
    "too few": ({"minAvailable": 5}, "not be greater than total replicas"),
    "volumes": ({"volumes": [{"mountPath": "/a", "volumeClaimName": "a"}]}, "spec.volumes cannot"),
}


def _meant(**container: Any) -> Object:
    """A Job with a task as a person writes it, and fields of its container."""
    return task(cpu="1000m", container=container, pod={"hostNetwork": False, "volumes": []})


AMOUNTS: Object = {"requests": {"cpu": 1}, "limits": {"memory": "1024Mi"}}
STORAGE_CLAIM: Object = {
    "accessModes": ["ReadWriteOnce"],
    "resources": {"requests": {"storage": "1024Mi"}},
}
# Tasks and volumes before and after, and the refusal of the change.
REWRITES: dict[str, tuple[Object, Object, str]] = {
    "no resources": (
        {"tasks": [task(container={"resources": {}})]},
        {"tasks": [task(pod={"containers": [{"name": "c", "image": "i"}]})]},
        "",
    ),
    "amounts in another form": (
        {"tasks": [_meant(resources=AMOUNTS)]},
        {"tasks": [task(container={
            "resources": {"requests": {"cpu": "1"}, "limits": {"memory": "1Gi"}},
            "env": [], "securityContext": {}, "tty": False,
        })]},
        "",
    ),
    "other amounts": (
        {"tasks": [_meant(resources=AMOUNTS)]},
        {"tasks": [task(container={"resources": {"requests": {"cpu": "1"}, "limits": {"memory": "1G"}}})]},
        "spec.tasks[].template cannot change",
    ),
    "an amount more": (
        {"tasks": [task()]},
        {"tasks": [task(container={"resources": {"requests": {"cpu": "1", "memory": "1"}}})]},
        "spec.tasks[].template cannot change",
    ),
    "an amount less": (
        {"tasks": [task(container={"resources": {"requests": {"cpu": "1", "memory": "1"}}})]},
        {"tasks": [task()]},
        "spec.tasks[].template cannot change",
    ),
    "containers in another order": (
        {"tasks": [task(pod={"containers": [{"name": "a", "image": "i"}, {"name": "b", "image": "i"}]})]},
        {"tasks": [task(pod={"containers": [{"name": "b", "image": "i"}, {"name": "a", "image": "i"}]})]},
        "spec.tasks[].template cannot change",
    ),
    "a field that is on": (
        {"tasks": [task()]},
        {"tasks": [task(pod={"hostPID": True})]},
        "spec.tasks[].template cannot change",
    ),
    "a field that is off and means something": (
        {"tasks": [task()]},
        {"tasks": [task(pod={"automountServiceAccountToken": False})]},
        "spec.tasks[].template cannot change",
    ),
    "an init container": (
        {"tasks": [task(pod={"initContainers": [{"name": "i", "image": "i"}]})]},
        {"tasks": [task(pod={"initContainers": [{"name": "i", "image": "j"}]})]},
        "spec.tasks[].template cannot change",
    ),
    "many tasks": (
        {"tasks": [task(f"t{number}", cpu="1000m") for number in range(100)]},
        {"tasks": [task(f"t{number}") for number in range(100)]},
        "",
    ),
    "a claim in another form": (
        {"volumes": [{"mountPath": "/a", "volumeClaim": STORAGE_CLAIM}]},
        {"volumes": [{"mountPath": "/a", "volumeClaim": {
            **STORAGE_CLAIM, "resources": {"requests": {"storage": "1Gi"}, "limits": {}}}}]},
        "",
    ),
    "another claim": (
        {"volumes": [{"mountPath": "/a", "volumeClaim": STORAGE_CLAIM}]},
        {"volumes": [{"mountPath": "/a", "volumeClaim": {
            **STORAGE_CLAIM, "resources": {"requests": {"storage": "2Gi"}}}}]},
        "spec.volumes cannot change",
    ),
}  # fmt: skip
