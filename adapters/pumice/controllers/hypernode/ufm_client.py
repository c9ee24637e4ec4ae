"""Reads the ports of the fabric from UFM's REST API."""

from base64 import b64decode, b64encode
from typing import Final

import aiohttp
import msgspec

from pumice.adapters.kubernetes.errors import KubernetesError, one_line
from pumice.adapters.kubernetes.object_head import UNREADABLE
from pumice.adapters.kubernetes.session import ApiSession
from pumice.controllers.hypernode.ufm import Port, UfmSettings

# Longer answers are not read.
MAX_ANSWER_BYTES: Final = 100 * 1024 * 1024
_PATH: Final = "/ufmRest/resources/ports"
_SECONDS: Final = 30.0
_OK: Final = 200
_PORTS: Final = msgspec.json.Decoder(list[Port])


class UfmError(Exception):
    """UFM, or the Secret with its credentials, gave no valid answer."""


class _Secret(msgspec.Struct):
    data: dict[str, str] | None = None


async def credentials(api: ApiSession, settings: UfmSettings) -> tuple[str, str]:
    """The user name and the password in the Secret. Raises UfmError."""
    where = f"{settings.secret_namespace}/{settings.secret_name}"
    path = f"/api/v1/namespaces/{settings.secret_namespace}/secrets/{settings.secret_name}"
    try:
        answer = await api.call("GET", path, seconds=_SECONDS)
        data = msgspec.json.decode(answer, type=_Secret).data or {}
        username, password = (
            b64decode(data.get(key, "")).decode() for key in ("username", "password")
        )
    except KubernetesError as error:
        raise UfmError(f"Secret {where} cannot be read: {one_line(error)}") from None
    except (ValueError, *UNREADABLE):
        raise UfmError(f"Secret {where} has values that are not text") from None
    if not username or not password:
        raise UfmError(f"Secret {where} needs the keys username and password")
    return username, password


async def ports(
    settings: UfmSettings, username: str, password: str, most_bytes: int = MAX_ANSWER_BYTES
) -> list[Port]:
    """All ports of the fabric. Raises UfmError."""
    timeout = aiohttp.ClientTimeout(total=_SECONDS)
    connector = aiohttp.TCPConnector(ssl=not settings.skips_verification)
    word = b64encode(f"{username}:{password}".encode()).decode()
    headers = {"Authorization": f"Basic {word}"}
    url = f"{settings.address}{_PATH}"
    try:
        async with (
            aiohttp.ClientSession(timeout=timeout, connector=connector) as http,
            http.get(url, headers=headers, allow_redirects=False) as answer,
        ):
            if answer.status != _OK:
                raise UfmError(f"{url} answers with the status {answer.status}; allowed: {_OK}")
            body = bytearray()
            async for chunk in answer.content.iter_any():
                body += chunk
                if len(body) > most_bytes:
                    raise UfmError(f"the answer of {url} is longer than {most_bytes} bytes")
            return _PORTS.decode(body)
    except TimeoutError:
        raise UfmError(f"{url} does not answer within {_SECONDS:g} s") from None
    except (aiohttp.ClientError, OSError) as error:
        raise UfmError(f"{url}: {one_line(error)[:200]}") from None
    except UNREADABLE as error:
        raise UfmError(f"the answer of {url} is not a list of ports: {one_line(error)}") from None
