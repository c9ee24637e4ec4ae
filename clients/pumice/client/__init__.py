"""The client library: the services of a core as typed Python methods.

``Client`` is for programs with threads, ``AsyncClient`` for programs with ``asyncio``. Both have the
same methods: ``Client`` runs an ``AsyncClient`` in a separate thread.
"""

from pumice.client.aio import AsyncClient
from pumice.client.background import Stream
from pumice.client.clusters import Cluster, Core, Pause
from pumice.client.configurations import (
    ActiveConfig,
    Config,
    ConfigCheck,
    ConfigNote,
    ConfigProblem,
)
from pumice.client.enums import (
    JobVerdict,
    PauseReason,
    PodGroupPhase,
    QueueState,
    ReasonCode,
    Severity,
    Stage,
    StageResult,
    StartOutcome,
)
from pumice.client.errors import (
    AccessDeniedError,
    ArgumentError,
    CallError,
    ClientError,
    ClosedError,
    CoreUnavailableError,
    DeadlineExceededError,
    HandshakeError,
    InvalidRequestError,
    LimitExceededError,
    NotFoundError,
    RecordingEndedError,
    RejectedObject,
    SettingsError,
)
from pumice.client.estimates import RunTimeBasis, StartEstimate
from pumice.client.explanations import (
    Eviction,
    Explanation,
    NearestNode,
    Placement,
    ReasonPeriod,
    StageExplanation,
)
from pumice.client.manifests import Manifest
from pumice.client.objects import Job, Node, Queue
from pumice.client.problems import Problem
from pumice.client.reasons import PluginFault, Reason, Wait
from pumice.client.results import JobResult, PlacedPod, ScheduleResult, Shortage
from pumice.client.sessions import (
    Bind,
    Evict,
    QueueShare,
    Session,
    SessionSummary,
    SessionTiming,
)
from pumice.client.settings import ClientSettings
from pumice.client.sync import Client

__all__ = [
    "AccessDeniedError",
    "ActiveConfig",
    "ArgumentError",
    "AsyncClient",
    "Bind",
    "CallError",
    "Client",
    "ClientError",
    "ClientSettings",
    "ClosedError",
    "Cluster",
    "Config",
    "ConfigCheck",
    "ConfigNote",
    "ConfigProblem",
    "Core",
    "CoreUnavailableError",
    "DeadlineExceededError",
    "Evict",
    "Eviction",
    "Explanation",
    "HandshakeError",
    "InvalidRequestError",
    "Job",
    "JobResult",
    "JobVerdict",
    "LimitExceededError",
    "Manifest",
    "NearestNode",
    "Node",
    "NotFoundError",
    "Pause",
    "PauseReason",
    "PlacedPod",
    "Placement",
    "PluginFault",
    "PodGroupPhase",
    "Problem",
    "Queue",
    "QueueShare",
    "QueueState",
    "Reason",
    "ReasonCode",
    "ReasonPeriod",
    "RecordingEndedError",
    "RejectedObject",
    "RunTimeBasis",
    "ScheduleResult",
    "Session",
    "SessionSummary",
    "SessionTiming",
    "SettingsError",
    "Severity",
    "Shortage",
    "Stage",
    "StageExplanation",
    "StageResult",
    "StartEstimate",
    "StartOutcome",
    "Stream",
    "Wait",
]
