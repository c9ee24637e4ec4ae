"""Reads and writes the objects that hold reservations of volumes, devices and nodes.

Every write can be repeated, because it reads the object first and writes to the version it read.
"""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, TypeVar

import msgspec

from pumice.adapters.kubernetes.errors import (
    CONFLICT,
    NOT_FOUND,
    UNPROCESSABLE,
    ApiError,
    LostAnswerError,
    one_line,
)
from pumice.adapters.kubernetes.session import MERGE, METADATA_ONLY, ApiSession, Fence
from pumice.adapters.runtime.world import ApplyCode, ApplyResult

T = TypeVar("T")
JSON: Final = "application/json"
_ENCODE: Final = msgspec.json.Encoder().encode
_CONFLICT_TRIES: Final = 3


class ReservationError(Exception):
    """A reservation that is not possible; ``result`` has the reason."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.result = ApplyResult(ApplyCode.INVALID, reason)


class ReservedObjects:
    """Calls for single objects. They raise ReservationError or KubernetesError."""

    def __init__(self, api: ApiSession, fence: Fence, seconds: float) -> None:
        self._api, self._fence, self._seconds = api, fence, seconds

    async def read(
        self, path: str, decode: Callable[[bytes], T], uid_of: Callable[[T], str], accept: str
    ) -> T | None:
        """The object; None: it does not exist."""
        try:
            body = await self._api.call("GET", path, accept=accept, seconds=self._seconds)
        except ApiError as error:
            if error.status == NOT_FOUND:
                return None
            raise
        try:
            item = decode(body)
        except msgspec.MsgspecError as error:
            raise ReservationError(f"{path} cannot be read: {error}") from error
        if not uid_of(item):
            raise LostAnswerError(f"the response to GET {path} is not an object")
        return item

    async def create(self, path: str, item: Mapping[str, Any], accept: str) -> bytes:
        try:
            return await self._write("POST", path, item, accept)
        except ApiError as error:
            if error.status == UNPROCESSABLE:
                raise ReservationError(one_line(error)) from error
            raise

    async def delete(self, path: str, uid: str) -> None:
        await self._write("DELETE", path, {"preconditions": {"uid": uid}}, METADATA_ONLY)

    async def _write(
        self, method: str, path: str, item: Mapping[str, Any], accept: str, type_: str = JSON
    ) -> bytes:
        return await self._api.call(
            method,
            path,
            _ENCODE(item),
            content_type=type_,
            accept=accept,
            seconds=self._seconds,
            fence=self._fence,
        )

    async def patch(
        self, path: str, patch: Mapping[str, Any], accept: str = METADATA_ONLY
    ) -> bytes:
        try:
            return await self._write("PATCH", path, patch, accept, MERGE)
        except ApiError as error:
            if error.status == UNPROCESSABLE:
                raise ReservationError(one_line(error)) from error
            if error.status == NOT_FOUND:
                # The object was deleted after it was read. The caller reads it again.
                raise ApiError(CONFLICT, error.reason, error.message) from error
            raise


async def retry_conflicts(write: Callable[[], Awaitable[T]]) -> T:
    """Repeats a read and a write if the object changed in between, a few times."""
    for _ in range(_CONFLICT_TRIES - 1):
        try:
            return await write()
        except ApiError as error:
            if error.status != CONFLICT:
                raise
    return await write()
