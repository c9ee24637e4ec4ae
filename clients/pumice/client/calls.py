"""Calls of the generated stubs, with the client library's deadlines, retries and errors."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Iterable
from contextlib import aclosing
from typing import Protocol, TypeVar

import grpc
import grpc.aio

from pumice.client import arguments
from pumice.client.channels import metadata_of, open_channel, read_credentials
from pumice.client.errors import CallError, ClosedError, DeadlineExceededError
from pumice.client.retries import Deadline, Outage, retrying
from pumice.client.settings import ClientSettings
from pumice.client.statuses import error_from, no_answer

_PAGE_SIZE = 2000


class PagedRequest(Protocol):
    """A request for one page of a list."""

    page_size: int
    page_token: str


class PagedResponse(Protocol):
    """One page of a list."""

    @property
    def next_page_token(self) -> str: ...


Request = TypeVar("Request")
Response = TypeVar("Response")
Paged = TypeVar("Paged", bound=PagedRequest)
Page = TypeVar("Page", bound=PagedResponse)
Item = TypeVar("Item")


class Caller:
    """Calls methods over a channel to a core."""

    def __init__(self, settings: ClientSettings) -> None:
        self.settings = settings
        self.channel = open_channel(settings, read_credentials(settings))

    async def close(self) -> None:
        await self.channel.close()

    def deadline(self, timeout_seconds: float | None, grace_seconds: float = 0.0) -> Deadline:
        """The deadline of a call; the default timeout is that of the settings."""
        own = arguments.seconds("timeout_seconds", timeout_seconds)
        return Deadline((self.settings.timeout_seconds if own is None else own) + grace_seconds)

    async def call(
        self,
        method: grpc.aio.UnaryUnaryMultiCallable[Request, Response],
        request: Request,
        deadline: Deadline,
    ) -> Response:
        """Calls a method with retries, which is safe because these methods only read."""
        failure: CallError | None = None

        async def attempt() -> Response:
            nonlocal failure
            try:
                return await self.call_once(method, request, deadline)
            except DeadlineExceededError:
                # Too little time was left for a retry: the failure before it says more.
                if failure is not None:
                    raise failure from None
                raise
            except CallError as error:
                failure = error
                raise

        return await retrying(self.settings, deadline)(attempt)

    async def call_once(
        self,
        method: grpc.aio.UnaryUnaryMultiCallable[Request, Response],
        request: Request,
        deadline: Deadline,
    ) -> Response:
        timeout, metadata = deadline.remaining_seconds, metadata_of(self.settings)
        if not timeout:
            raise no_answer(self.settings, deadline.seconds)
        try:
            return await method(request, timeout=timeout, metadata=metadata)
        except grpc.aio.AioRpcError as failed:
            raise error_from(failed, self.settings, deadline.seconds) from None
        except grpc.aio.UsageError:
            raise ClosedError("the client is closed") from None

    async def list(
        self,
        method: grpc.aio.UnaryUnaryMultiCallable[Paged, Page],
        request: Paged,
        items: Callable[[Page], Iterable[Item]],
        deadline: Deadline,
    ) -> list[Item]:
        """The items of all pages."""
        found: list[Item] = []
        request.page_size = _PAGE_SIZE
        while True:
            page = await self.call(method, request, deadline)
            found.extend(items(page))
            if not page.next_page_token:
                return found
            request.page_token = page.next_page_token

    async def stream(
        self, method: grpc.aio.UnaryStreamMultiCallable[Request, Response], request: Request
    ) -> AsyncGenerator[Response, None]:
        """The responses of a server stream, until the caller stops. Raises CallError."""
        try:
            call = method(request, metadata=metadata_of(self.settings))
        except grpc.aio.UsageError:
            raise ClosedError("the client is closed") from None
        try:
            async for response in call:
                yield response
        except grpc.aio.AioRpcError as failed:
            raise error_from(failed, self.settings) from None
        finally:
            call.cancel()

    async def resumed_stream(
        self,
        method: grpc.aio.UnaryStreamMultiCallable[Request, Response],
        request: Request,
        resume: Callable[[Response], None],
        outage_seconds: float | None,
    ) -> AsyncGenerator[Response, None]:
        """The responses of a stream, which is reopened when it breaks.

        ``resume`` changes the request so that a new stream continues after a response. After an
        outage of ``outage_seconds``, by default the retry time of the settings, raises the last
        error.
        """
        limit = self.settings.retry_seconds if outage_seconds is None else outage_seconds
        outage = Outage(limit)
        while True:
            outage.attempt_begins()
            responses = self.stream(method, request)
            try:
                async with aclosing(responses):
                    async for response in responses:
                        outage.ends()
                        resume(response)
                        yield response
                    return
            except CallError as error:
                await outage.wait_after(error)
