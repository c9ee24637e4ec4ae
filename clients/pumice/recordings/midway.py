"""The world in the middle of a recording: what is on its way there comes as recorded."""

from __future__ import annotations

from dataclasses import replace

from pumice.recordings.history import History
from pumice.recordings.lives import BY_USER, PodLife
from pumice.recordings.simulated import SimulatedPods
from pumice.v1.pod_pb2 import Pod


class InFlight(SimulatedPods):
    """Takes over the pods that there are, and plans the rest of what has begun with them."""

    def _take_over(self, past: History) -> None:
        self._now_ns = max(past.end_ns, self._now_ns)
        self._jobs = {
            name: replace(job, running=set(job.running), finished_ns=list(job.finished_ns))
            for name, job in past.jobs.items()
        }
        there = {held.pod.uid: held.pod for held in past.held.values() if held.HasField("pod")}
        for uid, seen in past.pods.items():
            life = replace(seen, ended_by="", replaced_by="", replaces="")
            if uid in there:
                pod = Pod()
                pod.CopyFrom(there[uid])
                self._settle_in(life, pod)
            else:
                self.lives[uid] = life
                self._lives_of.setdefault(life.job, []).append(life)
        for life in list(self.lives.values()):
            self._note_ended_job(life)
            if life.uid in there:
                self._plan_rest(life)
            else:
                self._plan_replacement(life)

    def _note_ended_job(self, life: PodLife) -> None:
        then = self._history.jobs.get(life.job)
        if life.finished_ns and then is not None and then.run_ns:
            self._done.add(life.job)

    def _plan_rest(self, life: PodLife) -> None:
        """At the recorded time where there is one, else when it usually comes."""
        then, now_ns = self._then(life), self._now_ns
        for at_ns, changed in then.changes[len(life.changes) :]:
            self._at(at_ns, self._change, life.uid, changed)
        if life.finished_ns or life.terminating_ns:
            ends = self._lose if self._is_missed(life, then) else self._vanish
            if then.gone_ns or ends == self._lose:
                self._at(then.gone_ns or now_ns + self.guesses.grace_ns(then), ends, life.uid)
        elif life.evicted_ns:
            at_ns = then.terminating_ns or then.gone_ns or now_ns + self.guesses.notice_ns(then)
            self._at(at_ns, self._terminate, life.uid)
        elif life.running_ns:
            job = self._job(life.job)
            if job.since_ns:
                self._plan_finish(life.uid, job)
        elif life.bound_ns:
            at_ns = then.running_ns or now_ns + self.guesses.start_ns(then)
            self._at(at_ns, self._start, life.uid)
        elif life.order is not None:
            as_recorded = then.bound_ns and then.node == life.order.bind.node
            at_ns = then.bound_ns if as_recorded else now_ns + self.guesses.bind_ns(then)
            self._at(at_ns, self._bind, life.order)

    def _is_missed(self, life: PodLife, then: PodLife) -> bool:
        return not life.finished_ns and then.ended_by != BY_USER

    def _plan_replacement(self, lost: PodLife) -> None:
        """A pod that is gone, and the one that will be made in its place."""
        other = self._history.pods.get(self._then(lost).replaced_by)
        if other is not None and other.uid not in self.lives:
            self._at(other.created_ns, self._remake, lost)
