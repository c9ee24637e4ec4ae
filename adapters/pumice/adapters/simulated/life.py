"""What happens in a simulated cluster by itself: jobs come, run and go, nodes die and come back."""

from collections.abc import Iterator
from dataclasses import dataclass, field

from pumice.adapters.simulated import furniture, workload
from pumice.adapters.simulated.chance import Chance
from pumice.adapters.simulated.options import SimulationOptions
from pumice.adapters.simulated.report import SimulationReport
from pumice.adapters.simulated.store import ObjectStore
from pumice.adapters.simulated.timeline import Timeline
from pumice.adapters.simulated.workload import JobPlan
from pumice.v1.object_pb2 import KIND_NODE, KIND_POD, KIND_POD_GROUP, ClusterObject
from pumice.v1.pod_pb2 import POD_PHASE_RUNNING, POD_PHASE_SUCCEEDED, Pod


@dataclass(slots=True)
class JobLife:
    """Where a job stands."""

    plan: JobPlan
    # How often each pod has been made.
    lives: list[int] = field(default_factory=list)
    # Another number whenever a run begins or is interrupted.
    run: int = 0
    is_running: bool = False
    is_done: bool = False
    was_whole: bool = False


class ClusterLife:
    """Moves the cluster along its timeline."""

    def __init__(
        self,
        options: SimulationOptions,
        store: ObjectStore,
        timeline: Timeline,
        report: SimulationReport,
    ) -> None:
        self._options, self._store = options, store
        self._timeline, self._report = timeline, report
        self._chance = Chance(options.seed)
        self._plans = workload.plan_jobs(options, self._chance.stream("workload"))
        self._jobs: dict[str, JobLife] = {}
        self._node_lives = [0] * options.nodes
        self._removed = 0
        self._time_is_up = False
        report.jobs = len(self._plans)
        timeline.teach(
            arrive=self._arrive,
            start=self._start,
            lose=self._lose,
            remake=self._make_pod,
            finish=self._finish,
            remove=self._remove,
            node_dies=self._node_dies,
            node_comes=self._node_comes,
            end=self._end,
        )

    @property
    def is_over(self) -> bool:
        is_done = self._time_is_up or self._removed == len(self._plans)
        return is_done and not self._options.keep

    def begin(self) -> None:
        for thing in (*furniture.priority_classes(), *furniture.queues()):
            self._store.put(thing)
        for number in range(self._options.nodes):
            self._node_comes(number)
        for number, plan in enumerate(self._plans):
            self._timeline.at(plan.arrival, "arrive", number)
        if self._options.duration:
            self._timeline.at(self._options.duration, "end")
        if self._options.trouble.dying_nodes and self._options.nodes:
            self._plan_death(0)

    def close_report(self) -> SimulationReport:
        """Brings the counts of the present state up to date."""
        report = self._report
        alive = [job for job in self._jobs.values() if not job.is_done]
        placed = [(job, self._placed(job)) for job in alive]
        report.jobs_done = sum(job.is_done for job in self._jobs.values())
        report.gangs_whole = sum(job.was_whole for job in self._jobs.values())
        report.gangs_short = sum(0 < n < job.plan.min_member for job, n in placed)
        report.jobs_waiting = len(self._plans) - len(self._jobs) + sum(n == 0 for _, n in placed)
        report.simulated_seconds = round(self._timeline.now(), 3)
        return report

    # Pods.

    def pod_was_bound(self, pod: Pod) -> None:
        self._report.pods_bound += 1
        job = self._jobs[pod.group_name]
        if self._placed(job) >= job.plan.min_member:
            job.was_whole = True
        self._timeline.after(self._options.start_seconds, "start", pod.uid)

    def evict(self, uid: str) -> None:
        copied = self._store.copy(KIND_POD, uid)
        if copied is None or copied.pod.terminating:
            return
        self._report.pods_evicted += 1
        copied.pod.terminating = True
        self._store.put(copied)
        self._check(self._jobs[copied.pod.group_name])
        self._timeline.after(self._options.grace_seconds, "lose", uid)

    def _end(self) -> None:
        self._time_is_up = True

    def _arrive(self, number: int) -> None:
        plan = self._plans[number]
        self._jobs[plan.name] = JobLife(plan, [0] * plan.pods)
        self._store.put(workload.pod_group(plan))
        for index in range(plan.pods):
            self._make_pod(plan.name, index)

    def _make_pod(self, job_name: str, index: int) -> None:
        job = self._jobs[job_name]
        if job.is_done:
            return
        job.lives[index] += 1
        second = self._timeline.now()
        self._store.put(workload.pod(job.plan, index, job.lives[index], second))

    def _start(self, uid: str) -> None:
        copied = self._store.copy(KIND_POD, uid)
        if copied is None or copied.pod.terminating or not copied.pod.node_name:
            return
        job = self._jobs[copied.pod.group_name]
        if job.is_done:
            return
        copied.pod.phase = POD_PHASE_RUNNING
        copied.pod.start_time.CopyFrom(furniture.timestamp(self._timeline.now()))
        self._store.put(copied)
        self._check(job)

    def _lose(self, uid: str) -> None:
        """A pod is gone; whoever made it makes another one."""
        held = self._store.get(KIND_POD, uid)
        if held is None:
            return
        job = self._jobs[held.pod.group_name]
        index = int(held.pod.name.rpartition("-")[2])
        self._store.remove(KIND_POD, uid)
        self._check(job)
        self._timeline.after(self._options.grace_seconds, "remake", job.plan.name, index)

    # Jobs.

    def _check(self, job: JobLife) -> None:
        """A gang works while enough of it runs; interrupted, it begins anew."""
        running = sum(
            pod.phase == POD_PHASE_RUNNING and not pod.terminating for pod in self._pods(job)
        )
        enough = running >= job.plan.min_member
        if job.is_done or enough == job.is_running:
            return
        job.is_running = enough
        job.run += 1
        if enough:
            self._timeline.after(job.plan.run_seconds, "finish", job.plan.name, job.run)

    def _finish(self, job_name: str, run: int) -> None:
        job = self._jobs[job_name]
        if job.is_done or job.run != run:
            return
        job.is_done = True
        for pod in list(self._pods(job)):
            if pod.phase == POD_PHASE_RUNNING:
                copied = ClusterObject(pod=pod)
                copied.pod.phase = POD_PHASE_SUCCEEDED
                self._store.put(copied)
        self._timeline.after(self._options.linger_seconds, "remove", job_name)

    def _remove(self, job_name: str) -> None:
        job = self._jobs[job_name]
        for pod in list(self._pods(job)):
            self._store.remove(KIND_POD, pod.uid)
        self._store.remove(KIND_POD_GROUP, workload.pod_group(job.plan).pod_group.uid)
        self._removed += 1

    def _pods(self, job: JobLife) -> Iterator[Pod]:
        for index in range(job.plan.pods):
            name = workload.pod_name(job.plan, index)
            found = self._store.read(KIND_POD, furniture.NAMESPACE, name).object
            if found is not None:
                yield found.pod

    def _placed(self, job: JobLife) -> int:
        return sum(bool(pod.node_name) and not pod.terminating for pod in self._pods(job))

    # Nodes.

    def _node_comes(self, number: int) -> None:
        self._node_lives[number] += 1
        second = self._timeline.now()
        self._store.put(furniture.node(number, self._node_lives[number], second))

    def _plan_death(self, count: int) -> None:
        every = self._options.trouble.dying_nodes
        delay = every * (0.5 + self._chance.draw("death", count))
        number = int(self._chance.draw("victim", count) * self._options.nodes)
        self._timeline.after(delay, "node_dies", number, count)

    def _node_dies(self, number: int, count: int) -> None:
        self._plan_death(count + 1)
        name = furniture.node_name(number)
        found = self._store.read(KIND_NODE, "", name).object
        if found is None:
            return
        self._report.node_deaths += 1
        self._store.remove(KIND_NODE, found.node.uid)
        for pod in self._store.pods_on(name):
            self._lose(pod.uid)
        self._timeline.after(self._options.outage_seconds, "node_comes", number)
