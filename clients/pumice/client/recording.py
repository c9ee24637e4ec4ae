"""A recording from a running core, as a stream of entries."""

from __future__ import annotations

from collections.abc import Iterator
from types import TracebackType
from typing import cast

import grpc
from google.protobuf.duration_pb2 import Duration

from pumice.v1.recording_pb2 import RecordingEntry
from pumice.v1.recording_service_pb2 import RecordRequest, RecordResponse
from pumice.v1.recording_service_pb2_grpc import RecordingServiceStub

_SECOND_NS = 1_000_000_000


class RecordingEndedError(Exception):
    """The core would not record, or ended before its time; what came before is whole."""

    def __init__(self, code: grpc.StatusCode, message: str) -> None:
        super().__init__(message)
        self.code = code


class RecordingStream:
    """Everything that happens to a cluster from now on. Close it to end the recording."""

    def __init__(
        self, channel: grpc.Channel, cluster: str = "", seconds: float | None = None
    ) -> None:
        request = RecordRequest(cluster=cluster)
        if seconds is not None:
            length = Duration()
            length.FromNanoseconds(int(seconds * _SECOND_NS))
            request.duration.CopyFrom(length)
        self._call = RecordingServiceStub(channel).Record(request)

    def __iter__(self) -> Iterator[RecordingEntry]:
        """Raises RecordingEndedError."""
        try:
            for response in cast("Iterator[RecordResponse]", self._call):
                yield from response.entries
        except grpc.RpcError as error:
            call = cast(grpc.Call, error)
            if call.code() is not grpc.StatusCode.CANCELLED:
                raise RecordingEndedError(call.code(), call.details() or "no reason") from None

    def close(self) -> None:
        """May be called from a signal handler or another thread."""
        cast(grpc.Call, self._call).cancel()

    def __enter__(self) -> RecordingStream:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()
