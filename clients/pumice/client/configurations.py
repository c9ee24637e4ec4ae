"""Scheduler configurations: the one in use, and the result of a check."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from pumice.client.clusters import Core, Pause
from pumice.client.values import Value, seconds_from, time_from
from pumice.v1 import configuration_pb2, inspection_service_pb2


@dataclass(frozen=True, slots=True)
class ConfigProblem(Value):
    """A line of a configuration with an error or a warning."""

    # Counted from 1; 0 if the problem does not concern one line.
    line: int
    path: str
    problem: str
    # The nearest valid name; empty if there is none.
    suggestion: str
    # Whether the configuration is valid in spite of the problem.
    warning: bool

    @staticmethod
    def from_proto(message: configuration_pb2.ConfigurationProblem) -> ConfigProblem:
        return ConfigProblem(
            message.line, message.path, message.problem, message.suggestion, message.warning
        )

    def __str__(self) -> str:
        parts = (f"line {self.line}" if self.line else "", self.path, self.problem)
        return ": ".join(part for part in parts if part)


@dataclass(frozen=True, slots=True)
class Config(Value):
    """A configuration."""

    # The text of Volcano's scheduler configuration file.
    scheduler_conf: str
    schedule_period_seconds: float
    default_queue: str
    scheduler_names: tuple[str, ...]
    # Whether sessions start early after a change.
    eager: bool
    # The place where the adapter found the configuration.
    source: str

    @staticmethod
    def from_proto(message: configuration_pb2.Configuration) -> Config:
        return Config(
            scheduler_conf=message.scheduler_conf,
            schedule_period_seconds=seconds_from(message.schedule_period),
            default_queue=message.default_queue,
            scheduler_names=tuple(message.scheduler_names),
            eager=message.eager,
            source=message.source,
        )


@dataclass(frozen=True, slots=True)
class ActiveConfig(Value):
    """The configuration in use, and the last one that was rejected since."""

    config: Config
    hash: str
    # None if there is no valid configuration.
    accepted_time: datetime | None
    # None if no configuration was rejected.
    rejected: Config | None
    problems: tuple[ConfigProblem, ...]
    core: Core
    # None if the cluster is scheduled.
    pause: Pause | None

    @staticmethod
    def from_proto(message: inspection_service_pb2.GetConfigResponse) -> ActiveConfig:
        rejected = Config.from_proto(message.rejected) if message.HasField("rejected") else None
        return ActiveConfig(
            config=Config.from_proto(message.configuration),
            hash=message.effective_config_hash,
            accepted_time=time_from(message.accepted_time),
            rejected=rejected,
            problems=tuple(map(ConfigProblem.from_proto, message.problems)),
            core=Core.from_proto(message.core),
            pause=Pause.from_proto(message.pause) if message.HasField("pause") else None,
        )


@dataclass(frozen=True, slots=True)
class ConfigNote(Value):
    """The meaning of a line of a configuration."""

    line: int
    path: str
    meaning: str
    # The page about the plugin or action, below docs/; empty if there is none.
    page: str = ""


@dataclass(frozen=True, slots=True)
class ConfigCheck(Value):
    """The result of checking a configuration."""

    valid: bool
    problems: tuple[ConfigProblem, ...]
    notes: tuple[ConfigNote, ...]
    # Empty unless the configuration is valid.
    hash: str

    @staticmethod
    def from_proto(message: inspection_service_pb2.CheckConfigResponse) -> ConfigCheck:
        return ConfigCheck(
            valid=message.valid,
            problems=tuple(map(ConfigProblem.from_proto, message.problems)),
            notes=tuple(
                ConfigNote(note.line, note.path, note.meaning, note.page) for note in message.notes
            ),
            hash=message.config_hash,
        )
