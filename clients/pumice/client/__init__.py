"""The client library: the services of a core as Python calls.

``Client`` is for programs with threads, ``AsyncClient`` for those on ``asyncio``; they have the
same methods and cannot differ, because both run the same operations.
"""

from pumice.client.aio import AsyncClient
from pumice.client.errors import (
    ClientError,
    CoreUnavailableError,
    DeniedError,
    HandshakeError,
    InvalidRequestError,
    LimitExceededError,
    NotFoundError,
    TimeOverError,
)
from pumice.client.settings import ClientSettings, SettingsError
from pumice.client.sync import Client

__all__ = [
    "AsyncClient",
    "Client",
    "ClientError",
    "ClientSettings",
    "CoreUnavailableError",
    "DeniedError",
    "HandshakeError",
    "InvalidRequestError",
    "LimitExceededError",
    "NotFoundError",
    "SettingsError",
    "TimeOverError",
]
