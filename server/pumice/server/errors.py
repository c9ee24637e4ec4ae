"""Errors that a core answers to its callers: one class for each case, with advice."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import ClassVar

from pumice.core.errors import InputError
from pumice.v1 import object_pb2

# A double holds integers up to this one exactly, so that JavaScript clients can read them.
LARGEST_SEQ = 2**53 - 1
_CONF = "bytes of a configuration"
_MOST_VIOLATIONS = 5


class ServiceError(InputError):
    """A call that cannot be served. What the caller can do about it stands in ``advice``."""

    advice: ClassVar[str] = "correct the request and try again"
    # The message, where it is always the same.
    text: ClassVar[str] = ""
    # How long to wait before the next attempt; 0: waiting does not help.
    retry_after_seconds: ClassVar[float] = 0.0
    # Goes into ErrorInfo; the names are those in error.proto.
    metadata: Mapping[str, str] = MappingProxyType({})
    # Fields with what is wrong with them, for BadRequest.
    violations: Sequence[tuple[str, str]] = ()

    def __init__(self, text: str = "") -> None:
        super().__init__(text or self.text)


class MalformedMessageError(ServiceError):
    """Bytes that cannot be read as the message that is expected."""

    advice = "use stubs made from pumice's protocol files"

    def __init__(self, expected: str) -> None:
        super().__init__(f"the bytes are not a {expected}")


class FieldError(ServiceError):
    """A field that is missing or has a value which is not allowed."""

    def __init__(self, field: str, problem: str, within: str = "") -> None:
        super().__init__(f"{within}.{field} {problem}" if within else f"{field} {problem}")
        self.field = field
        self.violations = ((field, problem),)


# The stream's rules.


class HelloMissingError(ServiceError):
    """The first message was not Hello."""

    advice = "send Hello first"
    text = "the first message of a stream must be Hello"


class HelloTimeoutError(ServiceError):
    """No Hello came in time."""

    advice = "connect again and send Hello at once"
    text = "no Hello came in time"


class HelloRepeatedError(ServiceError):
    """A second Hello on one stream."""

    advice = "open a new stream"
    text = "Hello was sent twice on one stream"


class HelloFieldError(FieldError):
    """A field of Hello is missing or has a value which is not allowed."""

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
    """A snapshot marker where none may stand."""

    advice = "send SnapshotBegin, batches, SnapshotEnd"


class OtherIncarnationError(ServiceError):
    """A batch that belongs to another incarnation than the stream's."""

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
    """A batch outside a snapshot although the core asked for one."""

    advice = "send SnapshotBegin first"
    text = "Welcome asked for a snapshot; no batch can be taken before it begins"


class SnapshotEndError(ServiceError):
    """An end marker that names another op than the last one sent."""

    advice = "connect again and send a snapshot"

    def __init__(self, given: int, held: int) -> None:
        super().__init__(f"SnapshotEnd names op {given}, the last one received is {held}")
        self.metadata = {"expected_seq": str(held), "given_seq": str(given)}


class StaleEpochError(ServiceError):
    """An adapter that is not the leader any more."""

    advice = "give up leadership, or win it again with a higher epoch"

    def __init__(self, given: int, served: int) -> None:
        super().__init__(f"epoch {given} is below {served}, which is served")
        self.metadata = {"served_epoch": str(served)}


class FutureEpochError(ServiceError):
    """An epoch that would lock every later leader out."""

    advice = "set the adapter's clock right"

    def __init__(self, given: int, latest: int) -> None:
        super().__init__(f"epoch {given} lies too far in the future; the latest is {latest}")
        self.metadata = {"latest_epoch": str(latest)}


class EpochTakenError(ServiceError):
    """Another adapter is served at the same epoch."""

    advice = "win the lease, which gives a higher epoch"

    def __init__(self, epoch: int, adapter_id: str) -> None:
        super().__init__(f"epoch {epoch} is served to adapter {adapter_id!r}")
        self.metadata = {"served_epoch": str(epoch), "adapter_id": adapter_id}


class ProtocolVersionError(ServiceError):
    """No protocol version in common."""

    advice = "upgrade the older side"

    def __init__(self, lowest: int, highest: int, ours: tuple[int, int]) -> None:
        super().__init__(
            f"the adapter speaks protocol {lowest} to {highest}, this core {ours[0]} to {ours[1]}"
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

    advice = "ask again in a moment"
    retry_after_seconds = 1.0


# Access.


class UnauthenticatedError(ServiceError):
    """The caller showed no certificate."""

    advice = "use a certificate signed by the core's client authority"
    text = "no client certificate was shown"


class ClusterDeniedError(ServiceError):
    """A certificate that is not for this cluster."""

    advice = "use a certificate with the URI pumice://cluster/NAME of this cluster"

    def __init__(self, cluster: str) -> None:
        super().__init__(f"the client certificate does not name cluster {cluster!r}")
        self.metadata = {"cluster": cluster}


# The core's own state.


class ShuttingDownError(ServiceError):
    """The core is about to end."""

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


# Questions about a core.


class UnknownClusterError(ServiceError):
    """No such cluster."""

    advice = "name a cluster that is connected"

    def __init__(self, name: str, nearest: Sequence[str]) -> None:
        super().__init__(f"no cluster {name!r}" if name else "no cluster is connected")
        self.metadata = {"nearest_names": ",".join(nearest)}


class NoClusterError(UnknownClusterError):
    """The core has no clusters."""

    advice = "connect one with 'pumice adapter' or 'pumice run'"

    def __init__(self, name: str) -> None:
        super().__init__(name, ())


class ClusterNotNamedError(ServiceError):
    """There are several clusters and none was named."""

    def __init__(self, names: Sequence[str]) -> None:
        super().__init__("name one of the clusters: " + ", ".join(names))
        self.metadata = {"nearest_names": ",".join(names)}
        self.violations = (("cluster", "is empty, and there are several clusters"),)


class ClusterConnectedError(ServiceError):
    """The cluster has an adapter at this moment."""

    advice = "stop the adapter first, or use force"

    def __init__(self, cluster: str, adapter_id: str) -> None:
        super().__init__(f"cluster {cluster!r} is connected by adapter {adapter_id!r}")
        self.metadata = {"adapter_id": adapter_id}


class PageError(FieldError):
    """A page size or token that cannot be used."""

    advice = "begin with an empty token, and go on with the one of the last answer"


class SessionNotKeptError(ServiceError):
    """The session is not kept any more, or has not run yet."""

    def __init__(self, session: int, first: int, last: int) -> None:
        kept = f"sessions {first} to {last} are kept" if last else "no session has run yet"
        super().__init__(f"no session {session}; {kept}")
        self.metadata = {"first_session": str(first), "last_session": str(last)}


class ConfTooLargeError(ServiceError):
    """A configuration text that is too long."""

    def __init__(self, limit: int, given: int) -> None:
        super().__init__(f"the configuration has {given} bytes; at most {limit} are read")
        self.metadata = {"limit_name": _CONF, "limit": str(limit), "given": str(given)}
        self.violations = (("configuration.scheduler_conf", f"has more than {limit} bytes"),)


# Questions of frontends: what would be decided, and why something is as it is.


class RequestFieldError(FieldError):
    """A field of a request is missing or has a value which is not allowed."""


class RequestIdReusedError(ServiceError):
    """A request id that was used with other content."""

    advice = "make a new request_id for every new request; a retry uses the same"

    def __init__(self, request_id: str) -> None:
        super().__init__(f"request_id {request_id!r} was used with other content")


class ObjectsRejectedError(ServiceError):
    """Objects of a request that cannot be used."""

    advice = "correct the objects that the details name"

    def __init__(self, rejected: Sequence[object_pb2.RejectedObject], count: int) -> None:
        first = rejected[0]
        more = f" and {count - 1} more" if count > 1 else ""
        super().__init__(f"{first.key}: {first.field} {first.reason}{more}")
        self.rejected = tuple(rejected)
        self.violations = tuple(
            (f"{one.key}: {one.field}", one.reason) for one in rejected[:_MOST_VIOLATIONS]
        )


class TrialTimeoutError(ServiceError):
    """The time limit was over before the answer was there; nothing is kept."""

    advice = "ask for less, or give it more time"

    def __init__(self, seconds: float) -> None:
        super().__init__(f"no answer within {seconds:g} s")


class TrialLostError(ServiceError):
    """The process that worked on the answer ended; the next question starts another."""

    advice = "try again, with jitter"
    retry_after_seconds = 1.0
    text = "the answer was lost, because the cluster was told anew or a process ended"


class TrialFailedError(ServiceError):
    """What a trial in another process found wrong, with its google.rpc.Status as bytes.

    There is no status for an error of the core itself.
    """

    def __init__(self, problem: str, status: bytes) -> None:
        super().__init__(problem)
        self.status = status


class UnknownSubjectError(ServiceError):
    """No such job or pod."""

    advice = "name one that the cluster has"

    def __init__(self, kind: str, name: str, nearest: Sequence[str]) -> None:
        near = f"; did you mean {', '.join(nearest)}?" if nearest else ""
        super().__init__(f"no {kind} {name!r}{near}")
        self.metadata = {"nearest_names": ",".join(nearest)}


class TokenError(ServiceError):
    """No bearer token, or one that is not known."""

    advice = "send 'authorization: Bearer TOKEN' with a token that the core knows"


class RoleDeniedError(ServiceError):
    """The caller is known and may not do this."""

    advice = "use a token or certificate with a role that may"

    def __init__(self, who: str, what: str) -> None:
        super().__init__(f"{who} may not {what}")
