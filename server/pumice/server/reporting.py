"""Reports about a cluster, in the log, in metrics and in events.

The number of log lines and events of one report is limited.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Sequence

from pumice.core.decisions import Bind, Event, PluginFault, SessionResult
from pumice.core.engine import Engine
from pumice.server.metrics import BindTimes, Metrics
from pumice.server.pause import FAULTS, Pause, pause_events
from pumice.server.queue_tree import fault_events, queue_faults
from pumice.server.wire import kind_word
from pumice.v1 import cluster_service_pb2, configuration_pb2, object_pb2

log = logging.getLogger("pumice.server")
# Log lines about one batch, one configuration or one session.
MAX_LINES = 20


class ClusterReporter:
    """Reports about one cluster, on the owner's thread. Some methods return events to send."""

    def __init__(self, cluster: str, metrics: Metrics) -> None:
        self._cluster = cluster
        self._metrics = metrics
        self._queue_faults: dict[str, str] = {}
        self._queues_version: tuple[int, ...] = ()
        self.bind_times = BindTimes()
        # The time at which the configuration came into use, and its hash.
        self.configured_ns = 0
        self._config_hash = ""

    def applied(
        self, count: int, rejected: Sequence[object_pb2.RejectedObject], unusable: int
    ) -> None:
        """Reports applied ops, rejected objects, and the number of objects in quarantine."""
        self._metrics.ops.labels(self._cluster).inc(count)
        self._metrics.quarantined.labels(self._cluster).set(unusable)
        if not rejected:
            return
        self._metrics.rejected.labels(self._cluster).inc(len(rejected))
        self._lines(
            logging.WARNING,
            "rejected",
            [
                f"{kind_word(item.kind)} {item.key} ({item.uid}): {item.field} {item.reason}"
                for item in rejected[: MAX_LINES + 1]
            ],
            len(rejected),
        )

    def warned(self, warnings: Sequence[object_pb2.ObjectWarning]) -> None:
        """Reports enum values that this core does not know."""
        if warnings:
            lines = [
                f"{kind_word(item.kind)} {item.key} ({item.uid}): {item.field} {item.message}"
                for item in warnings[: MAX_LINES + 1]
            ]
            self._lines(logging.WARNING, "unknown value in", lines, len(warnings))

    def configured(
        self, result: cluster_service_pb2.ConfigurationResult, source: str, now_ns: int
    ) -> None:
        """Reports whether a configuration was accepted, with its problems and warnings."""
        self._metrics.configuration_refused.labels(self._cluster).set(int(not result.accepted))
        in_use = result.effective_config_hash
        if result.accepted:
            if in_use != self._config_hash:
                self._config_hash, self.configured_ns = in_use, now_ns
                self._metrics.configured.labels(self._cluster).set(now_ns / 1e9)
            origin = f" from {source}" if source else ""
            log.info("%s: configuration %.12s%s is in use", self._cluster, in_use, origin)
        else:
            self._metrics.refused_configurations.labels(self._cluster).inc()
            if in_use:
                log.error("%s: configuration refused; %.12s stays in use", self._cluster, in_use)
            else:
                log.error("%s: configuration refused; no other one is in use", self._cluster)
        errors = [_problem(problem) for problem in result.problems if not problem.warning]
        warnings = [_problem(problem) for problem in result.problems if problem.warning]
        self._lines(logging.ERROR, "configuration problem:", errors, len(errors))
        self._lines(logging.WARNING, "configuration warning:", warnings, len(warnings))

    def completed_snapshot(self) -> None:
        self._metrics.snapshots.labels(self._cluster).inc()

    def compared(self, differing: Collection[int], where: str, *, alarm: bool) -> None:
        self._metrics.alarm.labels(self._cluster).set(int(alarm))
        if differing:
            self._metrics.drift.labels(self._cluster).inc(len(differing))
            words = ", ".join(kind_word(kind) for kind in differing)
            log.warning(
                "%s: adapter and core hold different objects %s: %s", self._cluster, where, words
            )

    def paused(self, old: Pause | None, new: Pause | None, engine: Engine) -> tuple[Event, ...]:
        gauge = self._metrics.paused
        if old is not None:
            gauge.labels(old.reason.value, self._cluster).set(0)
        if new is None:
            log.info("%s: the cluster is scheduled", self._cluster)
            return ()
        gauge.labels(new.reason.value, self._cluster).set(1)
        level = logging.ERROR if new.reason in FAULTS else logging.INFO
        log.log(level, "%s: %s", self._cluster, new.message)
        return pause_events(new, engine.cache.jobs.values())

    def skipped_session(self, now_ns: int) -> None:
        self._metrics.skipped.labels(self._cluster).inc()
        self._metrics.last_session.labels(self._cluster).set(now_ns / 1e9)

    def lost_decisions(self, count: int) -> None:
        self._metrics.lost.labels(self._cluster).inc(count)

    def expired_decisions(self, count: int) -> None:
        self._metrics.expired.labels(self._cluster).inc(count)
        log.warning("%s: %d decisions expired without an outcome", self._cluster, count)

    def ran_session(
        self, result: SessionResult, duration_ns: int, engine: Engine
    ) -> tuple[Event, ...]:
        cache = engine.cache
        self._metrics.record_session(self._cluster, result, duration_ns, cache.jobs, cache.tasks)
        bound = {d.gang.job for d in result.decisions if isinstance(d, Bind) and d.gang}
        self.bind_times.bound(sorted(bound), result.now_ns)
        faults = [
            f"plugin {fault.author} raised in {fault.where}{_place(fault)}: {fault.error}"
            for fault in result.faults[: MAX_LINES + 1]
        ]
        self._lines(logging.ERROR, "", faults, len(result.faults))
        return self._check_queues(engine)

    def _check_queues(self, engine: Engine) -> tuple[Event, ...]:
        """Reports faults in the queue tree when they change."""
        cache = engine.cache
        version = (cache.queues.version, id(engine.configuration), len(cache.jobs))
        if version == self._queues_version:
            return ()
        self._queues_version = version
        queues = cache.session_queues()
        busy = {job.queue for job in cache.jobs.values() if job.group is not None}
        faults = queue_faults(engine.configuration, queues, sorted(busy))
        self._metrics.broken_queues.labels(self._cluster).set(len(faults))
        new = {name: text for name, text in faults.items() if self._queue_faults.get(name) != text}
        self._queue_faults = faults
        lines = [f"{name}: {text}" for name, text in new.items()]
        self._lines(logging.WARNING, "queue", lines, len(lines))
        return fault_events(new, queues)

    def _lines(self, level: int, prefix: str, lines: Sequence[str], count: int) -> None:
        head = f"{self._cluster}: {prefix}".rstrip()
        for line in lines[:MAX_LINES]:
            log.log(level, "%s %s", head, line)
        if count > MAX_LINES:
            log.log(level, "%s ... and %d more", head, count - MAX_LINES)


def _place(fault: PluginFault) -> str:
    return f" ({fault.file}:{fault.line})" if fault.file else ""


def _problem(problem: configuration_pb2.ConfigurationProblem) -> str:
    line = f"line {problem.line}: " if problem.line else ""
    path = f"{problem.path}: " if problem.path else ""
    return f"{line}{path}{problem.problem}"
