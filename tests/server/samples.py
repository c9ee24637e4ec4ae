"""One object of every kind in which every field says something."""

from pumice.core.deltas import ClusterObject
from pumice.core.model.devices import (
    AllocatedDevice,
    CapacityPolicy,
    ClaimConsumer,
    CounterSet,
    Device,
    DeviceAllocation,
    DeviceCapacity,
    DeviceClass,
    DeviceConstraint,
    DeviceRequest,
    DeviceSubRequest,
    DeviceTaint,
    ResourceClaim,
    ResourceSlice,
    Version,
)
from pumice.core.model.group import (
    Namespace,
    NetworkTopology,
    NodeGroupAffinity,
    PodDisruptionBudget,
    PodGroup,
    PodGroupCondition,
    PodGroupPhase,
    PodGroupStatus,
    PriorityClass,
    Queue,
    QueueState,
    ResourceQuota,
    SubGroupPolicy,
    Workload,
)
from pumice.core.model.node import Node, NodeImage
from pumice.core.model.pod import (
    ContainerResources,
    HostPort,
    Pod,
    PodAffinityTerm,
    PodCondition,
    PodPhase,
    PodResourceClaim,
    PodSpec,
    PodVolume,
    SpreadConstraint,
    WeightedNodeTerm,
    WeightedPodAffinityTerm,
)
from pumice.core.model.selectors import (
    LabelSelector,
    NodeSelectorTerm,
    Operator,
    Requirement,
    Taint,
    TaintEffect,
    Toleration,
)
from pumice.core.model.storage import (
    CsiDriver,
    CsiNode,
    CsiStorageCapacity,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
    VolumeAttachment,
    VolumePhase,
)
from pumice.core.model.topology import (
    HyperNode,
    HyperNodeMember,
    NodeShard,
    NumaCpu,
    NumaTopology,
)

ZONE_A = Requirement("zone", Operator.IN, ("a", "b"))
SELECTOR = LabelSelector((ZONE_A, Requirement("old", Operator.DOES_NOT_EXIST)))
TERM = NodeSelectorTerm((ZONE_A,), (Requirement("metadata.name", Operator.NOT_IN, ("n9",)),))
NEAR = PodAffinityTerm("zone", SELECTOR, ("team-b",), LabelSelector())
TOPOLOGY = NetworkTopology(hard=False, highest_tier=2, highest_tier_name="rack")

SPEC = PodSpec(
    requests=(("cpu", 1500), ("memory", 2**31), ("nvidia.com/gpu", 2000), ("pods", 1)),
    non_zero_milli_cpu=1500,
    container_milli_cpu=700,
    container_memory_bytes=3 * 2**20,
    non_zero_memory_bytes=2**31,
    node_selector=(("disk", "ssd"), ("zone", "a")),
    required_node_terms=(TERM,),
    preferred_node_terms=(WeightedNodeTerm(7, TERM),),
    required_affinity=(NEAR,),
    required_anti_affinity=(PodAffinityTerm("host", SELECTOR, ("x",), SELECTOR),),
    preferred_affinity=(WeightedPodAffinityTerm(3, NEAR),),
    preferred_anti_affinity=(WeightedPodAffinityTerm(4, NEAR),),
    tolerations=(Toleration("gpu", "yes", True, TaintEffect.NO_EXECUTE),),
    spread_constraints=(SpreadConstraint("zone", 2, True, SELECTOR, 3, False, True),),
    host_ports=(HostPort("UDP", "10.0.0.1", 53),),
    images=("registry/app:1",),
    container_count=3,
    volumes=(PodVolume("scratch", True),),
    resource_claims=(PodResourceClaim("gpu", "job-gpu-x7"),),
    scheduling_gates=("example.com/wait",),
    scheduler_name="volcano",
    priority_class_name="high",
    never_preempts=True,
    numa_policy="restricted",
    limit_milli_cpu=3000,
    limit_memory_bytes=3 * 2**30,
    containers=(
        ContainerResources(
            True, 500, (("nvidia.com/gpu", 1000),), (("a.b/c", 2000),), "main", sidecar=True
        ),
    ),
    guaranteed=True,
)
POD = Pod(
    uid="pod-1",
    namespace="team-a",
    name="job-worker-0",
    spec=SPEC,
    creation_time_ns=1_767_225_600_000_000_001,
    labels={"app": "job"},
    annotations={"scheduling.k8s.io/group-name": "job"},
    phase=PodPhase.RUNNING,
    terminating=True,
    node_name="n1",
    nominated_node_name="n2",
    conditions=(PodCondition("PodScheduled", "True", "Because", "of this", 5),),
    start_time_ns=6,
    group_name="job",
    role="worker",
    priority=-10,
    task_priority=9,
    preemptable=False,
    revocable_zone="*",
    controller_uid="job-1",
    controller_kind="Job",
    controller_name="job",
)
NODE = Node(
    uid="node-1",
    name="n1",
    creation_time_ns=1,
    labels={"zone": "a"},
    annotations={"volcano.sh/x": "y"},
    taints=(Taint("gpu", "yes", TaintEffect.NO_SCHEDULE),),
    unschedulable=True,
    allocatable=(("cpu", 4000), ("pods", 110)),
    capacity=(("cpu", 4500), ("pods", 110)),
    oversubscription_milli_cpu=500,
    oversubscription_memory_bytes=2**20,
    images=(NodeImage(("registry/app:1", "app"), 10**8),),
)
POD_GROUP = PodGroup(
    uid="pg-1",
    namespace="team-a",
    name="job",
    creation_time_ns=2,
    labels={"a": "b"},
    annotations={"c": "d"},
    queue="red",
    min_member=3,
    min_task_member=(("ps", 1), ("worker", 2)),
    min_resources=(("cpu", 3000),),
    min_resources_milli=(("requests.memory", 2**60),),
    priority_class_name="high",
    network_topology=TOPOLOGY,
    topology_key="zone",
    sub_group_policies=(SubGroupPolicy("sub", SELECTOR, ("index",), 4, 2, TOPOLOGY),),
    preemptable=True,
    revocable_zone="*",
    sla_waiting_time_ns=10**9,
    spec_hash="0f3a",
    status=PodGroupStatus(
        PodGroupPhase.INQUEUE,
        1,
        2,
        3,
        (PodGroupCondition("Unschedulable", "True", "NotEnough", "2/3", "t-1", 7),),
    ),
)
QUEUE = Queue(
    uid="q-1",
    name="red",
    creation_time_ns=3,
    annotations={"volcano.sh/hierarchy": "root/red"},
    weight=4,
    priority=5,
    parent="root",
    reclaimable=False,
    capability=(("cpu", 10**6),),
    deserved=(("cpu", 10**5),),
    guarantee=(("cpu", 10**4),),
    affinity=NodeGroupAffinity(("a",), ("b",), ("c",), ("d",)),
    state=QueueState.CLOSING,
    allocated=(("cpu", 7),),
)

TOLERATION = Toleration("gpu", "yes", True, TaintEffect.NO_EXECUTE)
SUB_REQUEST = DeviceSubRequest(
    "a", "gpu", ("true",), True, 2, True, (TOLERATION,), (("example.com/memory", 5),)
)
ALLOCATED = AllocatedDevice(
    *("req", "example.com", "pool", "gpu-0", True, (TOLERATION,)),
    *(("ready",), ("broken",), "share-1", (("example.com/memory", 5),)),
)
CLAIM = ResourceClaim(
    "rc-1",
    "team-a",
    "gpus",
    7,
    "pod-1",
    True,
    (DeviceRequest("req", SUB_REQUEST, (SUB_REQUEST,)),),
    (DeviceConstraint(("req",), "example.com/numa", "example.com/index"),),
    DeviceAllocation((ALLOCATED,), (TERM,), 8),
    (ClaimConsumer("pods", "job-worker-0", "pod-1"),),
)
COUNTERS = CounterSet("memory", (("bytes", 9),))
DEVICE = Device(
    "gpu-0",
    {
        "example.com/index": 1,
        "example.com/ecc": True,
        "example.com/model": "a100",
        "example.com/version": Version("1.2.3"),
    },
    {"example.com/memory": DeviceCapacity(40, CapacityPolicy(1, (2, 3), 4, 5, 6))},
    (COUNTERS,),
    "n1",
    (TERM,),
    True,
    (DeviceTaint(Taint("broken", "yes", TaintEffect.NO_SCHEDULE), 3),),
    True,
    ("ready",),
    ("broken",),
    True,
)
SLICE = ResourceSlice(
    *("rs-1", "slice-1", "example.com", "pool", 2, 3, "n1", (TERM,), True, True),
    *((DEVICE,), (COUNTERS,)),
)
OBJECTS: dict[str, ClusterObject] = {
    "node": NODE,
    "pod": POD,
    "pod_group": POD_GROUP,
    "queue": QUEUE,
    "resource_claim": CLAIM,
    "resource_slice": SLICE,
    "device_class": DeviceClass("dc-1", "gpu", ("true",), "example.com/gpu", 3),
    "priority_class": PriorityClass("pc-1", "high", -7, True),
    "resource_quota": ResourceQuota(
        "rq-1", "team-a", "quota", (("count/pods", 9000),), (("requests.memory", 2**62),)
    ),
    "namespace": Namespace("ns-1", "team-a", {"tier": "gold"}),
    "pod_disruption_budget": PodDisruptionBudget(
        "pdb-1", "team-a", "budget", SELECTOR, 2, ("p0", "p1"), 3, 4, "job-1"
    ),
    "service": Workload("svc-1", "Service", "team-a", "web", SELECTOR),
    "replica_set": Workload("rs-1", "ReplicaSet", "team-a", "web", SELECTOR),
    "replication_controller": Workload("rc-1", "ReplicationController", "team-a", "web", SELECTOR),
    "stateful_set": Workload("ss-1", "StatefulSet", "team-a", "web", SELECTOR),
    "persistent_volume": PersistentVolume(
        uid="pv-1",
        name="pv",
        labels={"topology.kubernetes.io/zone": "a"},
        phase=VolumePhase.RELEASED,
        storage_class_name="fast",
        attributes_class_name="gold",
        capacity_bytes=2**55,
        access_modes=("ReadWriteOnce",),
        block_mode=True,
        node_terms=(TERM,),
        csi_driver="csi.example.com",
        csi_handle="h",
        claim_key="team-a/data",
        claim_uid="pvc-1",
        terminating=True,
    ),
    "persistent_volume_claim": PersistentVolumeClaim(
        uid="pvc-1",
        namespace="team-a",
        name="data",
        phase=VolumePhase.LOST,
        volume_name="pv",
        storage_class_name="fast",
        attributes_class_name="gold",
        request_bytes=2**40,
        access_modes=("ReadWriteMany",),
        block_mode=True,
        selector=SELECTOR,
        bind_completed=True,
        selected_node="n1",
        owner_uid="pod-1",
        terminating=True,
    ),
    "storage_class": StorageClass("sc-1", "fast", "csi.example.com", True, (TERM,), "other"),
    "csi_node": CsiNode("cn-1", "n1", (("csi.example.com", 25), ("other", -1))),
    "csi_driver": CsiDriver("cd-1", "csi.example.com", True),
    "csi_storage_capacity": CsiStorageCapacity(
        "cap-1", "kube-system", "cap", "fast", SELECTOR, 2**50, 0
    ),
    "volume_attachment": VolumeAttachment("va-1", "va", "csi.example.com", "n1", "pv"),
    "hyper_node": HyperNode(
        "hn-1",
        "rack-1",
        1,
        "rack",
        (
            HyperNodeMember(True, "switch-1"),
            HyperNodeMember(False, "", "^n[0-9]+$"),
            HyperNodeMember(False, "", "", LabelSelector()),
            HyperNodeMember(False, "", "", SELECTOR),
        ),
    ),
    "numa_topology": NumaTopology(
        uid="nt-1",
        name="n1",
        policies={"CPUManagerPolicy": "static"},
        resources={"cpu": ("0-3,8", 5)},
        cpus=(NumaCpu(8, 1, 2, 3),),
        reserved=(("cpu", 1000),),
        pod_allocations={"pod-1": "0-1"},
    ),
    "node_shard": NodeShard("sh-1", "volcano", ("n1", "n2"), ("n2",), ("n3",), ("n4",)),
}
