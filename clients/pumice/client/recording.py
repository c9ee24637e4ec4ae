"""A recording from a running core, as a stream of entries."""

from __future__ import annotations

from collections.abc import Iterator
from types import TracebackType
from typing import Any

import grpc
from google.protobuf.duration_pb2 import Duration

from pumice.client.errors import ClientError, error_of
from pumice.client.settings import ClientSettings
from pumice.v1.recording_pb2 import RecordingEntry
from pumice.v1.recording_service_pb2 import RecordRequest

SERVICE, METHOD = "RecordingService", "Record"
_SECOND_NS = 1_000_000_000


def record_request(cluster: str, seconds: float | None) -> RecordRequest:
    request = RecordRequest(cluster=cluster)
    if seconds is not None:
        length = Duration()
        length.FromNanoseconds(int(seconds * _SECOND_NS))
        request.duration.CopyFrom(length)
    return request


class RecordingEndedError(ClientError):
    """The core ended a recording before its time; what came before is whole."""

    @staticmethod
    def after(error: ClientError) -> RecordingEndedError:
        return RecordingEndedError(error.code, str(error), error.detail)


class RecordingStream:
    """Everything that happens to a cluster from now on. Close it to end the recording."""

    def __init__(self, call: Any, settings: ClientSettings) -> None:
        self._call = call
        self._settings = settings

    def __iter__(self) -> Iterator[RecordingEntry]:
        """Raises RecordingEndedError, or another ClientError when nothing was recorded at all."""
        began = False
        try:
            for response in self._call:
                began = True
                yield from response.entries
        except grpc.RpcError as failed:
            error = error_of(failed, self._settings)
            if error.code is not grpc.StatusCode.CANCELLED:
                raise (RecordingEndedError.after(error) if began else error) from None

    def close(self) -> None:
        """May be called from a signal handler or another thread."""
        self._call.cancel()

    def __enter__(self) -> RecordingStream:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()
