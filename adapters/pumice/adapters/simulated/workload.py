"""The jobs of a simulated cluster, as plans from the seed and as messages of the protocol."""

import hashlib
import random
from dataclasses import dataclass, replace

from google.protobuf.timestamp_pb2 import Timestamp

from pumice.adapters.simulated.cluster_objects import (
    GIB,
    GPU,
    NAMESPACE,
    PRIORITY_CLASSES,
    QUEUES,
    shape_of,
)
from pumice.adapters.simulated.options import SimulationOptions
from pumice.v1.group_pb2 import POD_GROUP_PHASE_PENDING, PodGroup, PodGroupStatus
from pumice.v1.object_pb2 import ClusterObject
from pumice.v1.pod_pb2 import POD_PHASE_PENDING, Pod, PodSpec
from pumice.v1.resource_pb2 import ResourceList

GROUP_ANNOTATION = "scheduling.k8s.io/group-name"
ROLE_ANNOTATION = "volcano.sh/task-spec"
ROLE = "worker"


@dataclass(frozen=True, slots=True)
class JobPlan:
    """A gang: its arrival, its requests and the length of its run."""

    name: str
    arrival: float
    run_seconds: float
    queue: str
    priority_class: str
    pods: int
    min_member: int
    milli_cpu: int
    memory_bytes: int
    gpus: int

    @property
    def key(self) -> str:
        return f"{NAMESPACE}/{self.name}"

    def requests(self) -> dict[str, int]:
        amounts = {"cpu": self.milli_cpu, "memory": self.memory_bytes, "pods": 1}
        if self.gpus:
            amounts[GPU] = self.gpus * 1000
        return amounts


def plan_jobs(options: SimulationOptions, rng: random.Random) -> list[JobPlan]:
    """The jobs in the order of their arrival."""
    shapes = [shape_of(number) for number in range(options.nodes)]
    total_cpu = sum(shape.milli_cpu for shape in shapes)
    total_gpus = sum(shape.gpus for shape in shapes)
    last_arrival = max(options.duration, 10.0) * options.arrival_share
    arrivals = sorted(rng.uniform(0, last_arrival) for _ in range(options.jobs))
    plans = []
    for number, arrival in enumerate(arrivals):
        queue = rng.choice(tuple(QUEUES))
        # A gang that is larger than the share of its queue could wait for ever.
        share = QUEUES[queue] / sum(QUEUES.values())
        pods = rng.choices((1, 2, 4, 8, 16), (2, 4, 4, 3, 1))[0]
        milli_cpu = rng.choice((500, 1000, 2000, 4000))
        pods = min(pods, max(1, int(total_cpu * share / milli_cpu)))
        gpus = rng.choice((1, 2)) if rng.random() < 0.1 else 0
        if gpus:
            fitting = int(total_gpus * share / gpus)
            pods, gpus = (min(pods, fitting), gpus) if fitting else (pods, 0)
        elastic = pods > 2 and rng.random() < options.elastic_share
        plans.append(
            JobPlan(
                name=f"job-{number:04d}",
                arrival=arrival,
                run_seconds=rng.uniform(options.shortest_run, options.longest_run),
                queue=queue,
                priority_class=rng.choices(tuple(PRIORITY_CLASSES), (3, 5, 2))[0],
                pods=pods,
                min_member=pods // 2 if elastic else pods,
                milli_cpu=milli_cpu,
                memory_bytes=rng.choice((1, 2, 4)) * GIB,
                gpus=gpus,
            )
        )
    return _with_load(plans, options.load * total_cpu * last_arrival, last_arrival / 3)


def _with_load(plans: list[JobPlan], work: float, longest: float) -> list[JobPlan]:
    """The jobs with runs scaled to a total amount of work, up to a longest run."""
    planned = sum(plan.pods * plan.milli_cpu * plan.run_seconds for plan in plans)
    if not work or not planned:
        return plans
    factor = work / planned
    return [replace(plan, run_seconds=min(longest, factor * plan.run_seconds)) for plan in plans]


def pod_group(plan: JobPlan, creation_time: Timestamp) -> ClusterObject:
    needed = {name: plan.min_member * amount for name, amount in plan.requests().items()}
    group = PodGroup(
        uid=group_uid(plan),
        namespace=NAMESPACE,
        name=plan.name,
        creation_time=creation_time,
        queue=plan.queue,
        min_member=plan.min_member,
        min_task_member={ROLE: plan.min_member},
        min_resources=ResourceList(amounts=needed),
        priority_class_name=plan.priority_class,
    )
    group.spec_hash = spec_hash(group)
    group.status.CopyFrom(PodGroupStatus(phase=POD_GROUP_PHASE_PENDING))
    return ClusterObject(pod_group=group)


def group_uid(plan: JobPlan) -> str:
    return f"group.{plan.name}"


def spec_hash(group: PodGroup) -> str:
    """A hash of the fields that scheduling reads, without the status."""
    read = PodGroup()
    read.CopyFrom(group)
    for field in ("uid", "creation_time", "status", "spec_hash"):
        read.ClearField(field)
    encoded = read.SerializeToString(deterministic=True)
    return hashlib.blake2b(encoded, digest_size=16).hexdigest()


def pod_name(plan: JobPlan, index: int) -> str:
    return f"{plan.name}-{ROLE}-{index}"


def pod(plan: JobPlan, index: int, generation: int, creation_time: Timestamp) -> ClusterObject:
    """A pod. A replacement has the same name, and a new uid by its generation."""
    name = pod_name(plan, index)
    spec = PodSpec(
        requests=plan.requests(),
        non_zero_milli_cpu=plan.milli_cpu,
        non_zero_memory_bytes=plan.memory_bytes,
        scheduler_name="volcano",
        priority_class_name=plan.priority_class,
        images=["simulated/worker:1"],
        container_count=1,
    )
    return ClusterObject(
        pod=Pod(
            uid=f"{name}.{generation}",
            namespace=NAMESPACE,
            name=name,
            spec=spec,
            creation_time=creation_time,
            labels={"job": plan.name},
            annotations={GROUP_ANNOTATION: plan.name, ROLE_ANNOTATION: ROLE},
            phase=POD_PHASE_PENDING,
            group_name=plan.name,
            role=ROLE,
            priority=PRIORITY_CLASSES[plan.priority_class],
            controller_uid=f"job.{plan.name}",
            controller_kind="Job",
            controller_name=plan.name,
        )
    )
