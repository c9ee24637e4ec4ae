"""The entry point of the core: deltas in, decisions out."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, replace
from typing import TypeVar

from pumice.core.cache import checkpoint
from pumice.core.cache.assumptions import Assumption
from pumice.core.cache.checkpoint import Checkpoint
from pumice.core.cache.settings import CacheSettings
from pumice.core.configuration import DEFAULT_CONFIGURATION, Configuration
from pumice.core.decisions import (
    Decision,
    PluginFault,
    SessionResult,
    StatusChange,
    Wait,
)
from pumice.core.deltas import (
    DataReported,
    Deleted,
    Delta,
    OutcomeCode,
    OutcomeReported,
    PodsUpserted,
    Upserted,
)
from pumice.core.errors import InvariantError, ObjectError
from pumice.core.model.reasons import Reason, ReasonCode
from pumice.core.model.resources import Resources
from pumice.core.model.status import TaskStatus
from pumice.core.registry import Plugin, Registry
from pumice.core.session.closing.statuses import note_closed
from pumice.core.session.evicting import break_up
from pumice.core.session.feasibility.views import ClassViews
from pumice.core.session.guarding.checks import time_or_none
from pumice.core.session.guarding.guard import HookGuard, PluginFailedError, attributed_to, fault_of
from pumice.core.session.outbox import events_of, pipelined_of, waits_of
from pumice.core.session.queues import QueueAccount
from pumice.core.session.session import Session
from pumice.core.session.timings import CLOSING, OPENING, Timings
from pumice.core.session.waiting import remember_waiting
from pumice.core.skip_check import SkipCheck

T = TypeVar("T")
FollowedOrder = tuple[str, str, bool, str, tuple[tuple[str, str], ...]]


@dataclass(frozen=True, slots=True)
class Rejection:
    """A delta that was rejected, and why."""

    delta: Delta
    error: ObjectError


class Engine:
    """The scheduler of one cluster. It has no clock: callers pass the time."""

    def __init__(
        self,
        configuration: Configuration = DEFAULT_CONFIGURATION,
        settings: CacheSettings | None = None,
        registry: Registry | None = None,
        id_prefix: str = "",
    ) -> None:
        settings = settings or CacheSettings()
        self.registry = (registry or Registry()).for_compat(settings.compat)
        self.configuration = configuration
        self.cache = self.registry.mode.cache(settings)
        self.session = 0
        # None: gangs of which some members could not be bound are never given up.
        self.gang_bind_deadline_ns: int | None = None
        # Replace it by one with a stopwatch to measure actions and plugins.
        self.timings = Timings()
        self._id_prefix = id_prefix
        self._views = ClassViews()
        self._plugin_wake_ns: int | None = None
        self._inspections = 0
        self._skip_check = SkipCheck()
        # For readers: queues after the last session, why jobs wait, and by node the resources that
        # are reserved for pipelined pods.
        self.accounts: dict[str, QueueAccount] = {}
        self.waits: tuple[Wait, ...] = ()
        self.pipelined: dict[str, Resources] = {}

    def configure(self, configuration: Configuration) -> None:
        """Uses a configuration from the next session on; what was computed for the old one is dropped."""
        if configuration != self.configuration:
            self.configuration = configuration
            self._views.clear()
            self.cache.node_states.clear()
            self.cache.jobs.activate_all()
            self.cache.version += 1
            self.cache.placement_changes += 1

    def change_settings(self, settings: CacheSettings) -> None:
        """Rebuilds the cache for other settings, under which other pods may be scheduled."""
        ignored = self.registry.ignored_resources(self.configuration)
        settings = replace(settings, ignored_resources=ignored)
        if settings == self.cache.settings:
            return
        self.registry = self.registry.for_compat(settings.compat)
        old, self.cache = self.cache, self.registry.mode.cache(settings)
        self._views = ClassViews()
        taken = checkpoint.take(old, self.session)
        # Every job may have other pods now, and is looked at again.
        checkpoint.restore(self.cache, replace(taken, closed_jobs=()))
        self.cache.version += old.version + 1
        self.cache.placement_changes += old.placement_changes + 1

    # Checkpoints.

    def checkpoint(self) -> Checkpoint:
        """Everything but the configuration that later sessions depend on. Between sessions only."""
        return checkpoint.take(self.cache, self.session)

    def restore(self, state: Checkpoint) -> None:
        """Replaces the state by that of another engine of the same configuration."""
        self.session = state.session
        self._skip_check.reset()
        self.cache = self.registry.mode.cache(self.cache.settings)
        self._views = ClassViews()
        checkpoint.restore(self.cache, state)

    # Deltas in.

    def apply(self, deltas: Iterable[Delta], now_ns: int = 0) -> tuple[Rejection, ...]:
        """Applies deltas in order, and returns those that were rejected.

        The time matters for outcomes only: a job cools down from the time its bind failed.
        """
        rejected = []
        cache = self.cache
        for delta in deltas:
            try:
                if isinstance(delta, Upserted):
                    cache.upsert(delta.object)
                elif isinstance(delta, PodsUpserted):
                    rejected += [
                        Rejection(*found) for found in cache.pod_updates.upsert_all(delta.pods)
                    ]
                elif isinstance(delta, Deleted):
                    cache.delete(delta.kind, delta.uid)
                elif isinstance(delta, DataReported):
                    cache.put_data(delta.plugin, delta.name, delta.values)
                else:
                    self._apply_outcome(delta, now_ns)
            except ObjectError as error:
                rejected.append(Rejection(delta, error))
        return tuple(rejected)

    def _apply_outcome(self, outcome: OutcomeReported, now_ns: int) -> None:
        assumptions = self.cache.assumptions
        assumed = assumptions.get(outcome.decision_id)
        if assumed is None or outcome.code is OutcomeCode.RETRYING:
            return
        if outcome.code is OutcomeCode.APPLIED:
            # An update of the pod ends the assumption.
            assumed.applied = True
            return
        if outcome.code is OutcomeCode.FAILED and assumed.status is TaskStatus.BINDING:
            failed_ns = max(now_ns, assumed.since_ns)
            code = ReasonCode.COOLING_DOWN
            self.cache.cool_downs.failed(assumed.job_id, assumed, code, failed_ns)
        self._undo(assumed, now_ns, failed=True)

    def _undo(self, assumed: Assumption, now_ns: int, *, failed: bool = False) -> None:
        """A decision failed: its task follows the pod again."""
        self.cache.assumptions.close(assumed)
        known = failed or self.gang_bind_deadline_ns is not None
        if known and assumed.status is TaskStatus.BINDING:
            self.cache.broken.suspect(assumed.job_id, now_ns)
        task = self.cache.tasks.get(assumed.pod_uid)
        if task is not None:
            self.cache.pod_updates.restore(task)

    def forget_lost(self, held_ids: Collection[str], now_ns: int) -> int:
        """Undoes decisions that the adapter never got or dropped; returns how many."""
        lost = self.cache.assumptions.not_among(held_ids)
        for assumed in lost:
            self._undo(assumed, now_ns)
        return len(lost)

    def forget_all(self, now_ns: int) -> None:
        """Undoes every open decision, before a new snapshot of the pods."""
        for assumed in self.cache.assumptions.all_open():
            self._undo(assumed, now_ns)

    def expire(self, before_ns: int, now_ns: int) -> list[str]:
        """The uids of pods that were decided on before a time and show no result."""
        return [a.pod_uid for a in self.cache.assumptions.expire(before_ns, now_ns)]

    def refuse(self, decisions: Iterable[Decision], code: ReasonCode, now_ns: int) -> None:
        """Undoes decisions that will not be applied; their jobs wait before they are tried again."""
        for decision in decisions:
            assumed = self.cache.assumptions.get(decision.id)
            if assumed is not None:
                job_id = decision.gang.job if decision.gang else assumed.job_id
                self.cache.cool_downs.failed(job_id, assumed, code, now_ns)
                self._undo(assumed, now_ns)

    # Decisions out.

    def schedule(self, now_ns: int) -> SessionResult:
        """Runs one session. A plugin that raises is left out, and the session starts over."""
        self.session += 1
        self.change_settings(self.cache.settings)
        self.cache.settle()
        for number in self.cache.classes.forget_unused():
            self._views.forget(number)
        left_out: dict[str, PluginFault] = {}
        self.timings.reset()
        while True:
            session = self.registry.mode.session(
                self.session, now_ns, self.cache, self.configuration, self._views, left_out
            )
            session.id_prefix, session.timings = self._id_prefix, self.timings
            try:
                result = self._run(session, tuple(left_out.values()))
            except PluginFailedError as failure:
                session.abandon()
                # What was computed may depend on its answers. The next session asks all plugins
                # again.
                self._views.clear()
                module = self.registry.plugins[failure.plugin].__module__
                left_out[failure.plugin] = failure.fault(module)
                self._skip_check.reset()
                if self.registry.is_required(failure.plugin):
                    return self._decide_nothing(session, tuple(left_out.values()))
                continue
            if left_out:
                self._views.clear()
            self._skip_check.note(self.cache, result, self.next_wake(now_ns))
            return result

    def can_skip(self, now_ns: int) -> bool:
        """Whether a session now would decide and report nothing, as the last one did."""
        return self._skip_check.can_skip(self.cache, now_ns)

    def require_session(self) -> None:
        """The next session is not skipped."""
        self._skip_check.reset()

    def _decide_nothing(self, session: Session, faults: tuple[PluginFault, ...]) -> SessionResult:
        """Decides nothing, because a plugin failed that keeps gangs, nodes or queues safe."""
        reasons = (Reason(faults[-1].author, ReasonCode.PLUGIN_FAULT),)
        waits = tuple(Wait(id_, reasons) for id_, job in session.jobs.items() if job.index.pending)
        self._plugin_wake_ns = None
        self.waits = waits
        number, now_ns, timings = session.number, session.now_ns, self.timings.result()
        return SessionResult(number, now_ns, waits=waits, faults=faults, timings=timings)

    def _run(self, session: Session, faults: tuple[PluginFault, ...]) -> SessionResult:
        try:
            with self.timings.action(OPENING):
                plugins = self._open(session)
            deadline = self.gang_bind_deadline_ns
            broken = self.cache.broken.refresh(
                session.jobs, session.now_ns, search=deadline is not None
            )
            session.broken = {id_: session.jobs[id_].queue for id_ in broken}
            break_up(session, broken, deadline)
            for name in self.configuration.actions:
                with self.timings.action(name):
                    self.registry.actions[name]().execute(session)
                session.outbox.action_ended(name)
            with self.timings.action(CLOSING):
                self._close(session, plugins)
        except (InvariantError, PluginFailedError):
            raise
        except Exception as error:
            modules = {self.registry.plugins[n].__module__: n for n in session.plugin_names}
            found = fault_of(modules, error.__traceback__)
            if found is None:
                raise
            raise PluginFailedError(*found, error) from error
        return self._finish(session, faults)

    def next_wake(self, now_ns: int) -> int | None:
        """When something could change by time alone; None: never."""
        cache = self.cache
        return _earliest(
            (
                self._plugin_wake_ns,
                cache.cool_downs.next_wake(now_ns),
                cache.broken.next_wake(now_ns, self.gang_bind_deadline_ns),
            )
        )

    def _open(self, session: Session) -> list[Plugin]:
        plugins = []
        for tier in session.tiers:
            for options in tier:
                name = options.name
                guard = None if self.registry.is_built_in(name) else HookGuard(session, name)
                with attributed_to(name, "open"):
                    plugin = self.registry.plugins[name](options)
                    session.timings.call(name, plugin.open, session)
                    if guard is not None:
                        guard.wrap_new()
                        session.waiting.is_watched |= hasattr(plugin, "close")
                plugins.append(plugin)
        return plugins

    def _close(self, session: Session, plugins: list[Plugin]) -> None:
        """Lets every plugin finish, and asks when it wants to be asked again."""
        wakes: list[int | None] = []
        for plugin in plugins:
            finish = getattr(plugin, "close", None)
            if finish is not None:
                with attributed_to(plugin.name, "close"):
                    session.timings.call(plugin.name, finish, session)
            wake = getattr(plugin, "next_wake", None)
            if wake is not None:
                with attributed_to(plugin.name, "next_wake"):
                    wakes.append(time_or_none(wake(session.now_ns)))
        self._plugin_wake_ns = _earliest(wakes)

    def _finish(self, session: Session, faults: tuple[PluginFault, ...]) -> SessionResult:
        statuses = self.registry.mode.close(session)
        decisions = session.outbox.decisions()
        touched, concerned = session.moves.touched_jobs, session.concerned_jobs()
        self.pipelined = pipelined_of(session)
        session.moves.finish()
        for reservations in self.cache.reservations:
            reservations.close(session.moves.bound)
        self.cache.assumptions.open_all(decisions, self.cache.tasks, session.now_ns)
        self.cache.assume_statuses(statuses)
        self.cache.plugin_times.update(session.kept_times)
        note_closed(session, concerned, touched)
        self._views.release(self.session)
        self.cache.node_states.release()
        self.accounts, self.waits = session.accounts, waits_of(session)
        events = events_of(session, statuses)
        remember_waiting(session, self.waits)
        return SessionResult(
            self.session,
            session.now_ns,
            decisions,
            tuple(statuses),
            events,
            self.waits,
            faults,
            session.work,
            tuple(session.outbox.made_by),
            tuple(session.questions),
            self.timings.result(),
        )

    # Replicas and queries.

    def follow(
        self,
        session: int,
        now_ns: int,
        orders: Iterable[FollowedOrder],
        statuses: Iterable[StatusChange],
    ) -> None:
        """Takes over what another engine of the same cluster decided, instead of deciding.

        Orders are the decision's id, the pod's uid, whether it is a bind, the node, and what the
        bind adds to the pod's annotations.
        """
        self.session = session
        for id_, uid, binds, node, added in orders:
            task = self.cache.tasks.get(uid)
            if task is not None:
                status = TaskStatus.BINDING if binds else TaskStatus.RELEASING
                self.cache.pod_updates.assume(
                    Assumption(id_, uid, task.job_id, status, node, now_ns, added)
                )
        self.cache.assume_statuses(statuses)

    def inspect(self, question: Callable[[Session], T], now_ns: int) -> T:
        """Opens a session, calls a function with it, and undoes the session."""
        self.cache.settle()
        # The number is unique, so that views ask the plugins of this session.
        self._inspections -= 1
        session = self.registry.mode.session(
            self._inspections, now_ns, self.cache, self.configuration, self._views, {}
        )
        try:
            self._open(session)
            return question(session)
        finally:
            session.abandon()
            self._views.release(session.number)
            self.cache.node_states.release()


def _earliest(times: Iterable[int | None]) -> int | None:
    return min((time for time in times if time is not None), default=None)
