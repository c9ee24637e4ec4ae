"""Errors that a core returns to its callers: one class for each case, with advice."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import ClassVar

from pumice.core.errors import InputError
from pumice.v1 import object_pb2

# The largest integer that a double, and so a JavaScript client, holds exactly.
LARGEST_SEQ = 2**53 - 1
_CONF = "bytes of a configuration"
_MAX_VIOLATIONS = 5


class ServiceError(InputError):
    """A call that cannot be served. ``advice`` is what the caller can do about it."""

    advice: ClassVar[str] = "correct the request and try again"
    # The message, if it is always the same.
    text: ClassVar[str] = ""
    # How long to wait before the next attempt; 0: waiting does not help.
    retry_after_seconds: ClassVar[float] = 0.0
    # The metadata of ErrorInfo; error.proto defines the names.
    metadata: Mapping[str, str] = MappingProxyType({})
    # Fields and their problems, for BadRequest.
    violations: Sequence[tuple[str, str]] = ()

    def __init__(self, text: str = "") -> None:
        super().__init__(text or self.text)


class MalformedMessageError(ServiceError):
    """Bytes that cannot be parsed as the expected message."""

    advice = "use stubs that were generated from pumice's protocol files"

    def __init__(self, expected: str) -> None:
        super().__init__(f"the bytes cannot be parsed as a {expected}")


class FieldError(ServiceError):
    """A missing field, or a field with an invalid value."""

    def __init__(self, field: str, problem: str, within: str = "") -> None:
        super().__init__(f"{within}.{field} {problem}" if within else f"{field} {problem}")
        self.field = field
        self.violations = ((field, problem),)


# Rules of the stream.


class HelloMissingError(ServiceError):
    """The first message was not Hello."""

    advice = "send Hello first"
    text = "the first message of a stream must be Hello"


class HelloTimeoutError(ServiceError):
    """No Hello arrived in time."""

    advice = "connect again and send Hello at once"
    text = "no Hello arrived in time"


class HelloRepeatedError(ServiceError):
    """A second Hello on one stream."""

    advice = "open a new stream"
    text = "Hello was sent twice on one stream"


class HelloFieldError(FieldError):
    """A missing field of Hello, or one with an invalid value."""

    def __init__(self, field: str, problem: str) -> None:
        super().__init__(field, problem, within="Hello")


class SequenceNumberError(ServiceError):
    """A sequence number out of range."""

    advice = "number the ops of an incarnation from 1"

    def __init__(self, field: str, given: int) -> None:
        problem = f"{given} is not between 1 and {LARGEST_SEQ}"
        super().__init__(f"{field} {problem}")
        self.violations = ((field, problem),)


class MarkerError(ServiceError):
    """A snapshot marker where none is allowed."""

    advice = "send SnapshotBegin, batches, SnapshotEnd"


class OtherIncarnationError(ServiceError):
    """A batch of another incarnation than that of the stream."""

    advice = "open a stream for that incarnation"

    def __init__(self, given: str, held: str) -> None:
        super().__init__(f"batch of incarnation {given!r} on a stream of {held!r}")


class GapError(ServiceError):
    """Ops between the last batch and this one are missing."""

    advice = "connect again and resume, or send a snapshot"

    def __init__(self, given: int, expected: int) -> None:
        super().__init__(f"batch begins with op {given}, expected {expected}")
        self.metadata = {"expected_seq": str(expected), "given_seq": str(given)}


class SnapshotExpectedError(ServiceError):
    """A batch before the snapshot that the core requested."""

    advice = "send SnapshotBegin first"
    text = "Welcome requested a snapshot; no batch is allowed before SnapshotBegin"


class SnapshotEndError(ServiceError):
    """An end marker with another sequence number than that of the last op."""

    advice = "connect again and send a snapshot"

    def __init__(self, given: int, held: int) -> None:
        super().__init__(f"SnapshotEnd names op {given}, but the last received op is {held}")
        self.metadata = {"expected_seq": str(held), "given_seq": str(given)}


class StaleEpochError(ServiceError):
    """An adapter that is no longer the leader."""

    advice = "give up leadership, or win it again with a higher epoch"

    def __init__(self, given: int, served: int) -> None:
        super().__init__(f"epoch {given} is below the served epoch {served}")
        self.metadata = {"served_epoch": str(served)}


class FutureEpochError(ServiceError):
    """An epoch so high that every later leader would be refused."""

    advice = "correct the clock of the adapter, or remove the epoch of a wrong clock from the lease"

    def __init__(self, given: int, latest: int) -> None:
        super().__init__(
            f"epoch {given} is too far in the future; the highest allowed epoch is {latest}"
        )
        self.metadata = {"latest_epoch": str(latest)}


class EpochTakenError(ServiceError):
    """Another adapter is served with the same epoch."""

    advice = "acquire the lease, which gives a higher epoch"

    def __init__(self, epoch: int, adapter_id: str) -> None:
        super().__init__(f"epoch {epoch} is in use by adapter {adapter_id!r}")
        self.metadata = {"served_epoch": str(epoch), "adapter_id": adapter_id}


class ProtocolVersionError(ServiceError):
    """Adapter and core have no protocol version in common."""

    advice = "upgrade the adapter or the core, whichever is older"

    def __init__(self, lowest: int, highest: int, ours: tuple[int, int]) -> None:
        super().__init__(
            f"the adapter supports protocol {lowest} to {highest}, this core {ours[0]} to {ours[1]}"
        )
        self.metadata = {"min_protocol": str(ours[0]), "max_protocol": str(ours[1])}


class LimitError(ServiceError):
    """More than a limit allows."""

    advice = "stay within the limit"

    def __init__(self, name: str, limit: int, given: int) -> None:
        super().__init__(f"{name}: {given} is over the limit of {limit}")
        self.metadata = {"limit_name": name, "limit": str(limit), "given": str(given)}


class BusyError(LimitError):
    """More calls at once than a limit allows."""

    advice = "try again in a moment"
    retry_after_seconds = 1.0


# Access.


class UnauthenticatedError(ServiceError):
    """The caller sent no certificate."""

    advice = "use a certificate signed by the core's client authority"
    text = "no client certificate was sent"


class ClusterDeniedError(ServiceError):
    """A certificate without access to this cluster."""

    advice = "use a certificate with the URI pumice://cluster/NAME of this cluster"

    def __init__(self, cluster: str) -> None:
        super().__init__(f"the client certificate does not name cluster {cluster!r}")
        self.metadata = {"cluster": cluster}


# State of the core.


class ShuttingDownError(ServiceError):
    """The core is stopping."""

    advice = "try again, with jitter"
    retry_after_seconds = 0.2
    text = "the core is shutting down"


class NotReadyError(ServiceError):
    """The cluster's snapshot is not complete yet."""

    advice = "try again, with jitter"
    retry_after_seconds = 1.0

    def __init__(self, cluster: str) -> None:
        super().__init__(f"the snapshot of cluster {cluster!r} is not complete yet")
        self.metadata = {"cluster": cluster}


class StateLostError(ServiceError):
    """The core dropped the state of the cluster after an internal error."""

    advice = "connect again and send a snapshot; report the error that the core logged"
    retry_after_seconds = 0.1

    def __init__(self, cluster: str) -> None:
        super().__init__(f"the core dropped its state of cluster {cluster!r} after an error")


# Clusters and lists.


class UnknownClusterError(ServiceError):
    """No cluster has this name."""

    advice = "name a cluster that is connected"

    def __init__(self, name: str, nearest: Sequence[str]) -> None:
        super().__init__(f"no cluster {name!r}" if name else "no cluster is connected")
        self.metadata = {"nearest_names": ",".join(nearest)}


class NoClusterError(UnknownClusterError):
    """The core has no clusters."""

    advice = "connect a cluster with 'pumice adapter' or 'pumice run'"

    def __init__(self, name: str) -> None:
        super().__init__(name, ())


class ClusterNotNamedError(ServiceError):
    """The request names no cluster, and there are several."""

    def __init__(self, names: Sequence[str]) -> None:
        super().__init__("name one of the clusters: " + ", ".join(names))
        self.metadata = {"nearest_names": ",".join(names)}
        self.violations = (("cluster", "is empty, and there are several clusters"),)


class ClusterConnectedError(ServiceError):
    """An adapter is connected for the cluster."""

    advice = "stop the adapter first, or use force"

    def __init__(self, cluster: str, adapter_id: str) -> None:
        super().__init__(f"adapter {adapter_id!r} is connected for cluster {cluster!r}")
        self.metadata = {"adapter_id": adapter_id}


class PageError(FieldError):
    """An invalid page size or page token."""

    advice = "begin with an empty token, and continue with the token of the last response"


class SessionNotKeptError(ServiceError):
    """The session is no longer kept, or has not run yet."""

    def __init__(self, session: int, first: int, last: int) -> None:
        kept = f"sessions {first} to {last} are kept" if last else "no session has run yet"
        super().__init__(f"no session {session}; {kept}")
        self.metadata = {"first_session": str(first), "last_session": str(last)}


class ConfTooLargeError(ServiceError):
    """A configuration text that exceeds the limit."""

    def __init__(self, limit: int, given: int) -> None:
        super().__init__(f"the configuration has {given} bytes; at most {limit} are allowed")
        self.metadata = {"limit_name": _CONF, "limit": str(limit), "given": str(given)}
        self.violations = (("configuration.scheduler_conf", f"has more than {limit} bytes"),)


# What-if requests, explanations and estimates.


class RequestFieldError(FieldError):
    """A missing field of a request, or one with an invalid value."""


class RequestIdReusedError(ServiceError):
    """A request id that was used before with other content."""

    advice = "use a new request_id for every new request, and the same one for a retry"

    def __init__(self, request_id: str) -> None:
        super().__init__(f"request_id {request_id!r} was used before with other content")


class ObjectsRejectedError(ServiceError):
    """Invalid objects in a request."""

    advice = "correct the objects in the details"

    def __init__(self, rejected: Sequence[object_pb2.RejectedObject], count: int) -> None:
        first = rejected[0]
        more = f" and {count - 1} more" if count > 1 else ""
        super().__init__(f"{first.key}: {first.field} {first.reason}{more}")
        self.rejected = tuple(rejected)
        self.violations = tuple(
            (f"{one.key}: {one.field}", one.reason) for one in rejected[:_MAX_VIOLATIONS]
        )


class TrialTimeoutError(ServiceError):
    """The time limit passed before the response was ready. The result is discarded."""

    advice = "use a smaller request or a longer timeout"

    def __init__(self, seconds: float) -> None:
        super().__init__(f"no response within {seconds:g} s")


class TrialLostError(ServiceError):
    """The replica process ended, or could not be started. The next request starts another one."""

    advice = "try again, with jitter"
    retry_after_seconds = 1.0
    text = "the response was lost, because a new snapshot began or the replica process ended"


class TrialFailedError(ServiceError):
    """An error of a trial in another process, with its google.rpc.Status as bytes.

    The status is empty for an internal error.
    """

    def __init__(self, problem: str, status: bytes) -> None:
        super().__init__(problem)
        self.status = status


class UnknownSubjectError(ServiceError):
    """No job or pod has this name."""

    advice = "name a job or pod of the cluster"

    def __init__(self, kind: str, name: str, nearest: Sequence[str]) -> None:
        near = f"; did you mean {', '.join(nearest)}?" if nearest else ""
        super().__init__(f"no {kind} {name!r}{near}")
        self.metadata = {"nearest_names": ",".join(nearest)}


class TokenError(ServiceError):
    """A missing or unknown bearer token."""

    advice = "send 'authorization: Bearer TOKEN' with a token that the core knows"


class RoleDeniedError(ServiceError):
    """The caller is authenticated, but has no role that allows the call."""

    advice = "use a token or certificate with a role that allows it"

    def __init__(self, who: str, what: str) -> None:
        super().__init__(f"{who} may not {what}")
