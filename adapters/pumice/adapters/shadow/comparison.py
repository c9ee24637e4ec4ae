"""Compares the decisions of the cluster's scheduler ("theirs") with those of pumice ("ours").

Time is an argument. A decision of theirs is compared with our proposal that is valid at that moment.
If there is none, the caller withholds the change from the core for some time, so that the core
decides on the same state as the other scheduler.
"""

from collections.abc import Callable
from dataclasses import replace

from pumice.adapters.shadow.differences import Difference, DifferenceKind, Tally
from pumice.adapters.shadow.records import JobRecord, PodRecord, Proposal, is_evicted, job_of
from pumice.v1.decision_pb2 import Bind, Evict
from pumice.v1.pod_pb2 import Pod


class Comparison:
    """Compares decisions about all pods of the other scheduler."""

    def __init__(
        self,
        wait_seconds: float,
        report: Callable[[Difference], None],
        are_equivalent: Callable[[str, str, str, float], bool] = lambda *_: False,
    ) -> None:
        self.wait_seconds = wait_seconds
        # Whether two nodes are equivalent for a job at a time.
        self._are_equivalent = are_equivalent
        self._report = report
        self._tally = Tally()
        self._pods: dict[str, PodRecord] = {}
        self._jobs: dict[str, JobRecord] = {}
        self._has_begun = False

    def begin(self) -> None:
        """Begins the comparison. Existing pods are not compared."""
        self._has_begun = True

    # Their decisions.

    def seen(self, pod: Pod, now: float) -> bool:
        """Notes a version of a pod; returns False if the core must not get it yet."""
        record = self._pods.get(pod.uid)
        if record is None:
            record = self._add_pod(pod)
        record.node = pod.node_name
        record.is_evicted = is_evicted(pod)
        return self._compare(record, now)

    def overdue(self, uid: str, now: float, *, compared: bool) -> None:
        """Handles the end of the time for a proposal; compared: whether a core could make one."""
        record = self._pods.get(uid)
        if record is None:
            return
        if record.node and not record.is_bind_compared:
            record.is_bind_compared = True
            if compared:
                self._judge_missed(record, now)
            else:
                self._tally.pods_not_compared += 1
                record.job.is_compared = True
        if record.is_evicted and not record.is_eviction_compared:
            record.is_eviction_compared = True
            if compared:
                self._tally.evictions_only_theirs += 1
                self._differ(DifferenceKind.EVICTION_ONLY_THEIRS, record, theirs=record.node)

    def gone(self, uid: str, now: float) -> None:
        record = self._pods.pop(uid, None)
        if record is None:
            return
        self._count_open(self._tally, record, now)
        record.job.pods -= 1
        if not record.job.pods:
            self._count_open_job(self._tally, record.job, now)
            del self._jobs[record.job.name]

    # Our decisions.

    def propose_bind(self, order: Bind, now: float) -> float:
        """Seconds for which the proposed bind is valid; 0: it has expired, or theirs is known."""
        record = self._pods.get(order.uid)
        if record is None or record.is_bind_compared:
            return 0.0
        if record.job.ours_at is None:
            record.job.ours_at = now
        left = self._propose(record.bind, order.node, "", now)
        if self._compare(record, now) and record.node:
            return 0.0
        if left <= 0:
            self._report_waiting(record)
        return left

    def propose_eviction(self, order: Evict, now: float) -> float:
        """Seconds for which the proposed eviction is valid."""
        record = self._pods.get(order.uid)
        if record is None or record.is_eviction_compared:
            return 0.0
        reason = f"{order.reason} for {order.for_job}" if order.for_job else order.reason
        left = self._propose(record.eviction, order.node, reason, now)
        if self._compare(record, now) and record.is_evicted:
            return 0.0
        if left <= 0 and not record.is_eviction_reported:
            record.is_eviction_reported = True
            self._differ(DifferenceKind.EVICTION_ONLY_OURS, record, ours=order.node, reason=reason)
        return left

    def node_of(self, uid: str) -> str | None:
        """The node of a pod, or ""; None: the pod does not exist."""
        record = self._pods.get(uid)
        return None if record is None else record.node

    def is_evicted(self, uid: str) -> bool:
        record = self._pods.get(uid)
        return record is not None and record.is_evicted

    def summary(self, now: float) -> Tally:
        """The counts so far, including undecided pods and jobs."""
        tally = replace(self._tally)
        for record in self._pods.values():
            self._count_open(tally, record, now)
        for job in self._jobs.values():
            self._count_open_job(tally, job, now)
        return tally

    # Comparing.

    def _add_pod(self, pod: Pod) -> PodRecord:
        name = job_of(pod)
        job = self._jobs.setdefault(name, JobRecord(name))
        job.pods += 1
        record = PodRecord(f"{pod.namespace}/{pod.name}", job, Proposal(), Proposal())
        self._pods[pod.uid] = record
        if pod.node_name:
            # The core never had the pod without a node, so it could not propose one.
            record.is_bind_compared = True
            job.is_compared = True
            if self._has_begun:
                self._tally.pods_not_compared += 1
        record.is_eviction_compared = is_evicted(pod)
        return record

    def _propose(self, proposal: Proposal, node: str, reason: str, now: float) -> float:
        """Makes a proposal valid, or ends one whose time has passed; returns the remaining time."""
        if proposal.until and now >= proposal.until:
            proposal.until = 0.0
            return 0.0
        until = proposal.until or now + self.wait_seconds
        proposal.make(node, reason, now, until)
        return until - now

    def _compare(self, record: PodRecord, now: float) -> bool:
        if record.node and not record.is_bind_compared:
            if not record.bind.is_valid(now):
                return False
            record.is_bind_compared = True
            self._judge_bind(record, now)
        if record.is_evicted and not record.is_eviction_compared:
            if not record.eviction.is_valid(now):
                return False
            record.is_eviction_compared = True
            self._tally.evictions_agreed += 1
        return True

    def _judge_bind(self, record: PodRecord, now: float) -> None:
        theirs, ours = record.node, record.bind.node
        if theirs == ours:
            self._tally.pods_same_node += 1
        elif self._are_equivalent(theirs, ours, record.job.name, now):
            self._tally.pods_equivalent_node += 1
        else:
            self._tally.pods_other_node += 1
            self._differ(DifferenceKind.NODE, record, theirs=theirs, ours=ours)
        self._judge_start(record, now)

    def _judge_missed(self, record: PodRecord, now: float) -> None:
        self._tally.pods_only_theirs += 1
        is_first = not record.job.is_compared
        self._judge_start(record, now - self.wait_seconds)
        if not is_first or record.job.ours_at is not None:
            self._differ(DifferenceKind.POD_ONLY_THEIRS, record, theirs=record.node)

    def _judge_start(self, record: PodRecord, now: float) -> None:
        job = record.job
        if job.is_compared:
            return
        job.is_compared = True
        job.theirs_at = now
        if job.ours_at is None:
            self._tally.jobs_later += 1
            self._report(Difference(DifferenceKind.JOB_LATER, job.name))
        elif now - job.ours_at > self.wait_seconds:
            self._tally.jobs_earlier += 1
            self._report(
                Difference(DifferenceKind.JOB_EARLIER, job.name, seconds=now - job.ours_at)
            )
        else:
            self._tally.jobs_together += 1

    def _report_waiting(self, record: PodRecord) -> None:
        """Reports a waiting job once, and after its start each waiting pod once."""
        if record.is_bind_compared or record.is_bind_reported:
            return
        record.is_bind_reported = True
        if record.job.is_compared:
            self._differ(DifferenceKind.POD_ONLY_OURS, record, ours=record.bind.node)
        elif not record.job.is_reported:
            record.job.is_reported = True
            self._report(Difference(DifferenceKind.JOB_ONLY_OURS, record.job.name))

    def _differ(
        self,
        what: DifferenceKind,
        record: PodRecord,
        *,
        theirs: str = "",
        ours: str = "",
        reason: str = "",
    ) -> None:
        job, pod = record.job.name, record.name
        self._report(Difference(what, job, pod, theirs=theirs, ours=ours, reason=reason))

    # Undecided pods and jobs.

    def _count_open(self, tally: Tally, record: PodRecord, now: float) -> None:
        if not record.node and self._is_overdue(record.bind.first, now):
            tally.pods_only_ours += 1
        if not record.is_eviction_compared and self._is_overdue(record.eviction.first, now):
            tally.evictions_only_ours += 1

    def _count_open_job(self, tally: Tally, job: JobRecord, now: float) -> None:
        if not job.is_compared and self._is_overdue(job.ours_at, now):
            tally.jobs_never += 1

    def _is_overdue(self, since: float | None, now: float) -> bool:
        return since is not None and now - since >= self.wait_seconds
