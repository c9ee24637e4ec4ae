"""The controllers of a simulated cluster: they create, run and end pods, and let nodes fail."""

from collections.abc import Iterator
from dataclasses import dataclass, field

from pumice.adapters.simulated import cluster_objects, workload
from pumice.adapters.simulated.event_queue import EventQueue
from pumice.adapters.simulated.options import SimulationOptions
from pumice.adapters.simulated.report import SimulationReport
from pumice.adapters.simulated.seeded_random import SeededRandom
from pumice.adapters.simulated.store import ObjectStore
from pumice.adapters.simulated.timestamps import Timestamps
from pumice.adapters.simulated.workload import JobPlan
from pumice.v1.object_pb2 import KIND_NODE, KIND_POD, KIND_POD_GROUP, ClusterObject
from pumice.v1.pod_pb2 import POD_PHASE_RUNNING, POD_PHASE_SUCCEEDED, Pod


@dataclass(slots=True)
class JobState:
    """The state of a job."""

    plan: JobPlan
    # Number of times each pod was created.
    generations: list[int] = field(default_factory=list)
    # Changes when a run begins or is interrupted.
    run: int = 0
    is_running: bool = False
    is_done: bool = False
    was_whole: bool = False


class ClusterController:
    """Changes the objects of the cluster when events are due."""

    def __init__(
        self,
        options: SimulationOptions,
        store: ObjectStore,
        events: EventQueue,
        timestamps: Timestamps,
        report: SimulationReport,
    ) -> None:
        self._options, self._store = options, store
        self._events, self._timestamps, self._report = events, timestamps, report
        self._random = SeededRandom(options.seed)
        self._plans = workload.plan_jobs(options, self._random.generator("workload"))
        self._jobs: dict[str, JobState] = {}
        self._node_generations = [0] * options.nodes
        self._removed = 0
        self._time_is_up = False
        report.jobs = len(self._plans)
        events.register(
            job_arrives=self._job_arrives,
            pod_starts=self._pod_starts,
            pod_is_deleted=self._pod_is_deleted,
            pod_is_created=self._create_pod,
            job_finishes=self._job_finishes,
            job_is_removed=self._job_is_removed,
            node_fails=self._node_fails,
            node_joins=self._node_joins,
            time_is_up=self._end,
        )

    @property
    def is_over(self) -> bool:
        is_done = self._time_is_up or self._removed == len(self._plans)
        return is_done and not self._options.keep

    def begin(self) -> None:
        """Creates the first objects and queues the first events."""
        queues = cluster_objects.queues(self._timestamps.at(0))
        for each in (*cluster_objects.priority_classes(), *queues):
            self._store.put(each)
        for number in range(self._options.nodes):
            self._node_joins(number)
        for number, plan in enumerate(self._plans):
            self._events.at(plan.arrival, "job_arrives", number)
        if self._options.duration:
            self._events.at(self._options.duration, "time_is_up")
        if self._options.faults.failing_nodes and self._options.nodes:
            self._plan_failure(0)

    def current_report(self) -> SimulationReport:
        """The report with counts of the current state."""
        report = self._report
        alive = [job for job in self._jobs.values() if not job.is_done]
        placed = [(job, self._placed(job)) for job in alive]
        report.jobs_done = sum(job.is_done for job in self._jobs.values())
        report.gangs_whole = sum(job.was_whole for job in self._jobs.values())
        report.gangs_short = sum(0 < n < job.plan.min_member for job, n in placed)
        report.jobs_waiting = len(self._plans) - len(self._jobs) + sum(n == 0 for _, n in placed)
        report.simulated_seconds = round(self._events.second, 3)
        return report

    def pod_was_bound(self, pod: Pod) -> None:
        self._report.pods_bound += 1
        job = self._jobs[pod.group_name]
        if self._placed(job) >= job.plan.min_member:
            job.was_whole = True
        self._events.after(self._options.start_seconds, "pod_starts", pod.uid)

    def evict(self, uid: str) -> None:
        copied = self._store.copy(KIND_POD, uid)
        if copied is None or copied.pod.terminating:
            return
        self._report.pods_evicted += 1
        copied.pod.terminating = True
        self._store.put(copied)
        self._update_run(self._jobs[copied.pod.group_name])
        self._events.after(self._options.grace_seconds, "pod_is_deleted", uid)

    def _end(self) -> None:
        self._time_is_up = True

    def _job_arrives(self, number: int) -> None:
        plan = self._plans[number]
        self._jobs[plan.name] = JobState(plan, [0] * plan.pods)
        self._store.put(workload.pod_group(plan, self._timestamps.at(plan.arrival)))
        for index in range(plan.pods):
            self._create_pod(plan.name, index)

    def _create_pod(self, job_name: str, index: int) -> None:
        job = self._jobs[job_name]
        if job.is_done:
            return
        job.generations[index] += 1
        creation_time = self._timestamps.at(self._events.second)
        self._store.put(workload.pod(job.plan, index, job.generations[index], creation_time))

    def _pod_starts(self, uid: str) -> None:
        copied = self._store.copy(KIND_POD, uid)
        if copied is None or copied.pod.terminating or not copied.pod.node_name:
            return
        job = self._jobs[copied.pod.group_name]
        if job.is_done:
            return
        copied.pod.phase = POD_PHASE_RUNNING
        copied.pod.start_time.CopyFrom(self._timestamps.at(self._events.second))
        self._store.put(copied)
        self._update_run(job)

    def _pod_is_deleted(self, uid: str) -> None:
        """Deletes a pod. The controller of its job creates another one."""
        held = self._store.get(KIND_POD, uid)
        if held is None:
            return
        job = self._jobs[held.pod.group_name]
        index = int(held.pod.name.rpartition("-")[2])
        self._store.remove(KIND_POD, uid)
        self._update_run(job)
        self._events.after(self._options.grace_seconds, "pod_is_created", job.plan.name, index)

    def _update_run(self, job: JobState) -> None:
        """Begins or interrupts the run of a gang, which needs its minimum of running pods."""
        running = sum(
            pod.phase == POD_PHASE_RUNNING and not pod.terminating for pod in self._pods(job)
        )
        enough = running >= job.plan.min_member
        if job.is_done or enough == job.is_running:
            return
        job.is_running = enough
        job.run += 1
        if enough:
            self._events.after(job.plan.run_seconds, "job_finishes", job.plan.name, job.run)

    def _job_finishes(self, job_name: str, run: int) -> None:
        job = self._jobs[job_name]
        if job.is_done or job.run != run:
            return
        job.is_done = True
        for pod in list(self._pods(job)):
            if pod.phase == POD_PHASE_RUNNING:
                copied = ClusterObject(pod=pod)
                copied.pod.phase = POD_PHASE_SUCCEEDED
                self._store.put(copied)
        self._events.after(self._options.linger_seconds, "job_is_removed", job_name)

    def _job_is_removed(self, job_name: str) -> None:
        job = self._jobs[job_name]
        for pod in list(self._pods(job)):
            self._store.remove(KIND_POD, pod.uid)
        self._store.remove(KIND_POD_GROUP, workload.group_uid(job.plan))
        self._removed += 1

    def _pods(self, job: JobState) -> Iterator[Pod]:
        for index in range(job.plan.pods):
            name = workload.pod_name(job.plan, index)
            found = self._store.read(KIND_POD, cluster_objects.NAMESPACE, name).object
            if found is not None:
                yield found.pod

    def _placed(self, job: JobState) -> int:
        return sum(bool(pod.node_name) and not pod.terminating for pod in self._pods(job))

    def _node_joins(self, number: int) -> None:
        self._node_generations[number] += 1
        generation = self._node_generations[number]
        creation_time = self._timestamps.at(self._events.second)
        self._store.put(cluster_objects.node(number, generation, creation_time))

    def _plan_failure(self, count: int) -> None:
        interval = self._options.faults.failing_nodes
        delay = interval * (0.5 + self._random.draw("death", count))
        number = int(self._random.draw("victim", count) * self._options.nodes)
        self._events.after(delay, "node_fails", number, count)

    def _node_fails(self, number: int, count: int) -> None:
        self._plan_failure(count + 1)
        name = cluster_objects.node_name(number)
        found = self._store.read(KIND_NODE, "", name).object
        if found is None:
            return
        self._report.node_failures += 1
        self._store.remove(KIND_NODE, found.node.uid)
        for pod in self._store.pods_on(name):
            self._pod_is_deleted(pod.uid)
        self._events.after(self._options.outage_seconds, "node_joins", number)
