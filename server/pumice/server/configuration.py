"""Reads the configuration of a cluster from its message, and adds defaults."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection
from dataclasses import dataclass, replace

from google.protobuf.duration_pb2 import Duration

from pumice.core.cache.settings import LATE_DEVICES, CacheSettings
from pumice.core.cache.shards import ShardingMode
from pumice.core.cache.tasks import QUEUE_ADMISSION
from pumice.core.configuration import Configuration as SchedulerConfiguration
from pumice.core.errors import ConfigurationError, Problem
from pumice.core.kubebatch import BACKOFF, KUBE_BATCH, NAMESPACE_AS_QUEUE
from pumice.core.plugins.deviceshare.device_config import why_not_devices
from pumice.core.registry import Registry
from pumice.server.plain_yaml import YamlText, YamlTextError, parse
from pumice.server.wire.times import duration
from pumice.v1 import configuration_pb2

_SECOND_NS = 1_000_000_000
DEFAULT_PERIOD_NS = _SECOND_NS
DEFAULT_APPLY_TIMEOUT_NS = 60 * _SECOND_NS
# With shorter periods the core would do nothing but run sessions.
_LEAST_NS = 1_000_000
_MOST_NS = 24 * 3600 * _SECOND_NS
# Number of problems reported for one configuration, and number of characters of one problem.
MAX_PROBLEMS = 100
MAX_PROBLEM_LENGTH = 1000
# Switches of the compatibility page. The second and third concern older versions of kube-batch.
COMPAT_SWITCHES = (KUBE_BATCH, NAMESPACE_AS_QUEUE, BACKOFF, LATE_DEVICES)


# Volcano's feature gates that change decisions.
_FEATURE_GATES = (QUEUE_ADMISSION,)

_SHARDING_MODES = {
    configuration_pb2.SHARDING_MODE_UNSPECIFIED: ShardingMode.NONE,
    configuration_pb2.SHARDING_MODE_NONE: ShardingMode.NONE,
    configuration_pb2.SHARDING_MODE_HARD: ShardingMode.HARD,
    configuration_pb2.SHARDING_MODE_SOFT: ShardingMode.SOFT,
}


class ConfigurationRefusedError(ConfigurationError):
    """An invalid configuration, with its problems as messages of the protocol."""

    def __init__(self, problems: tuple[configuration_pb2.ConfigurationProblem, ...]) -> None:
        super().__init__(tuple(Problem((p.path,), p.problem) for p in problems))
        self.problem_messages = problems


@dataclass(frozen=True, slots=True)
class EffectiveConfiguration:
    """A valid configuration with all defaults."""

    scheduler: SchedulerConfiguration
    settings: CacheSettings
    period_ns: int
    eager: bool
    apply_timeout_ns: int
    # None: a broken gang is never evicted.
    gang_bind_deadline_ns: int | None
    # The same configuration as a message.
    message: configuration_pb2.Configuration
    warnings: tuple[configuration_pb2.ConfigurationProblem, ...]
    hash: str


def read(message: configuration_pb2.Configuration, registry: Registry) -> EffectiveConfiguration:
    """Raises ConfigurationRefusedError with all problems, and no other error.

    An unexpected error also becomes a problem, so that it does not drop the state of the cluster.
    """
    reader = _Reader(registry)
    try:
        effective = reader.read(message)
    except Exception as error:
        text = f"cannot be read: {type(error).__name__}: {error}; please report this"
        problem = configuration_pb2.ConfigurationProblem(
            path="scheduler_conf", problem=text[:MAX_PROBLEM_LENGTH]
        )
        raise ConfigurationRefusedError((problem,)) from error
    if any(not problem.warning for problem in reader.problems):
        raise ConfigurationRefusedError(_first_problems(reader.problems))
    return effective


def _first_problems(
    problems: list[configuration_pb2.ConfigurationProblem],
) -> tuple[configuration_pb2.ConfigurationProblem, ...]:
    """Limits the number of problems. When some are omitted, errors come before warnings."""
    if len(problems) <= MAX_PROBLEMS:
        return tuple(problems)
    kept = sorted(problems, key=lambda problem: problem.warning)[:MAX_PROBLEMS]
    more = f"{len(problems) - MAX_PROBLEMS} more problems are not listed"
    return (*kept, configuration_pb2.ConfigurationProblem(problem=more))


class _Reader:
    """Reads one configuration and collects its problems."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self.problems: list[configuration_pb2.ConfigurationProblem] = []

    def _problem(self, path: str, problem: str, *, line: int = 0, warning: bool = False) -> None:
        self.problems.append(
            configuration_pb2.ConfigurationProblem(
                line=line, path=path, problem=problem, warning=warning
            )
        )

    def read(self, message: configuration_pb2.Configuration) -> EffectiveConfiguration:
        scheduler = self._scheduler(message.scheduler_conf, message.compat)
        devices = self._devices(message.device_config)
        if devices:
            scheduler = replace(scheduler, device_config=devices)
        base = _base_settings(message.compat)
        settings = CacheSettings(
            tuple(message.scheduler_names) or base.scheduler_names,
            message.default_queue or base.default_queue,
            # As in Volcano, the flag adds to the provisioners that are always ignored.
            tuple(dict.fromkeys((*message.ignored_provisioners, *base.ignored_provisioners))),
            compat=base.compat,
            sharding_mode=self._sharding_mode(message.sharding_mode),
            shard_name=message.sharding_name or base.shard_name,
            feature_gates=tuple(
                name for name in _FEATURE_GATES if message.feature_gates.get(name, False)
            ),
        )
        if "" in settings.scheduler_names:
            self._problem("scheduler_names", "contains an empty name")
        has_deadline = message.HasField("gang_bind_deadline")
        deadline = self._duration("gang_bind_deadline", message.gang_bind_deadline, 0)
        self._check_switches(message)
        period = self._duration("schedule_period", message.schedule_period, DEFAULT_PERIOD_NS)
        timeout = self._duration("apply_timeout", message.apply_timeout, DEFAULT_APPLY_TIMEOUT_NS)
        eager = message.eager if message.HasField("eager") else True
        with_defaults = _add_defaults(message, settings, period, timeout, eager=eager)
        return EffectiveConfiguration(
            scheduler,
            settings,
            period,
            eager,
            timeout,
            deadline if has_deadline else None,
            with_defaults,
            tuple(self.problems),
            _hash(scheduler, with_defaults),
        )

    def _devices(self, text: str) -> str:
        """The device configuration as JSON; empty: none."""
        if not text.strip():
            return ""
        try:
            data = parse(text).data
        except YamlTextError as error:
            self._problem("device_config", error.problem[:MAX_PROBLEM_LENGTH], line=error.line)
            return ""
        problem = why_not_devices(data)
        if problem is not None:
            self._problem("device_config", problem[:MAX_PROBLEM_LENGTH])
            return ""
        return json.dumps(data, sort_keys=True, default=str)

    def _scheduler(self, text: str, compat: Collection[str]) -> SchedulerConfiguration:
        registry = self._registry.for_compat(compat)
        default = registry.mode.default
        if not text.strip():
            return default
        try:
            parsed = parse(text)
        except YamlTextError as error:
            self._problem("", error.problem[:MAX_PROBLEM_LENGTH], line=error.line)
            return default
        try:
            scheduler = registry.mode.read(parsed.data, registry.catalog())
        except ConfigurationError as error:
            self.problems += [_problem_message(problem, parsed) for problem in error.problems]
            return default
        self.problems += [_problem_message(warning, parsed) for warning in scheduler.warnings]
        return scheduler

    def _duration(self, path: str, message: Duration, default_ns: int) -> int:
        """Nanoseconds of a duration; an absent or zero duration means the default."""
        nanoseconds = message.seconds * _SECOND_NS + message.nanos
        if nanoseconds == 0:
            return default_ns
        if not _LEAST_NS <= nanoseconds <= _MOST_NS:
            self._problem(path, "must be between 1 ms and 24 h")
            return default_ns
        return nanoseconds

    def _sharding_mode(self, mode: configuration_pb2.ShardingMode.ValueType) -> ShardingMode:
        known = _SHARDING_MODES.get(mode)
        if known is None:
            self._problem("sharding_mode", f"unknown mode {mode}; known: none, hard, soft")
            return ShardingMode.NONE
        return known

    def _check_switches(self, message: configuration_pb2.Configuration) -> None:
        for name in message.compat:
            if name not in COMPAT_SWITCHES:
                known = ", ".join(COMPAT_SWITCHES)
                self._problem("compat", f"unknown switch {name!r}; known: {known}")
            elif KUBE_BATCH not in message.compat and name != LATE_DEVICES:
                self._problem("compat", f"{name!r} has no effect without {KUBE_BATCH!r}")
        for name in sorted(set(message.feature_gates) - set(_FEATURE_GATES)):
            problem = f"has no effect; known feature gates: {', '.join(_FEATURE_GATES)}"
            self._problem(f"feature_gates[{name}]", problem, warning=True)


def _base_settings(compat: Collection[str]) -> CacheSettings:
    """The default settings of Volcano, or those of kube-batch."""
    switches = tuple(name for name in COMPAT_SWITCHES if name in compat)
    if KUBE_BATCH not in switches:
        return CacheSettings(compat=switches)
    # Without a default queue the namespace is the queue.
    queue = "" if NAMESPACE_AS_QUEUE in switches else CacheSettings().default_queue
    return CacheSettings((KUBE_BATCH,), queue, compat=switches)


def _problem_message(problem: Problem, parsed: YamlText) -> configuration_pb2.ConfigurationProblem:
    where = str(Problem(problem.path, "")).removesuffix(": ")
    return configuration_pb2.ConfigurationProblem(
        line=parsed.line_of(problem.path),
        path="" if not problem.path else where,
        problem=problem.message[:MAX_PROBLEM_LENGTH],
        suggestion=problem.suggestion,
        warning=problem.warning,
    )


def _add_defaults(
    message: configuration_pb2.Configuration,
    settings: CacheSettings,
    period_ns: int,
    timeout_ns: int,
    *,
    eager: bool,
) -> configuration_pb2.Configuration:
    full = configuration_pb2.Configuration()
    full.CopyFrom(message)
    full.schedule_period.CopyFrom(duration(period_ns))
    full.apply_timeout.CopyFrom(duration(timeout_ns))
    full.eager = eager
    full.default_queue = settings.default_queue
    del full.scheduler_names[:]
    full.scheduler_names.extend(settings.scheduler_names)
    del full.ignored_provisioners[:]
    full.ignored_provisioners.extend(settings.ignored_provisioners)
    return full


def _hash(scheduler: SchedulerConfiguration, with_defaults: configuration_pb2.Configuration) -> str:
    """Configurations with the same meaning have the same hash, even if their texts differ."""
    rest = configuration_pb2.Configuration()
    rest.CopyFrom(with_defaults)
    rest.scheduler_conf = rest.source = ""
    digest = hashlib.sha256(scheduler.digest.encode())
    digest.update(rest.SerializeToString(deterministic=True))
    return digest.hexdigest()


def configuration_text(configuration: SchedulerConfiguration) -> str:
    """The YAML text of a configuration without flags and arguments."""
    lines = ["# built in", f'actions: "{", ".join(configuration.actions)}"', "tiers:"]
    for tier in configuration.tiers:
        lines += ["- plugins:", *(f"  - name: {options.name}" for options in tier)]
    return "\n".join(lines) + "\n"
