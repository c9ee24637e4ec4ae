"""A plain HTTP client of an API server: what tests need to look at a cluster and to change it."""

from __future__ import annotations

import asyncio
import json
import ssl
from collections.abc import AsyncIterator, Iterable, Mapping
from types import TracebackType
from typing import Any, Self

import aiohttp

from tests.controlplane.credentials import ADMIN, Credentials

JSON_PATCH = "application/json-patch+json"
MERGE = "application/merge-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"
APPLY = "application/apply-patch+yaml"
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"
Object = dict[str, Any]
_TRIES = 30
_AGAIN_SECONDS = 0.3

_CLUSTER_KINDS = {
    "CSINode",
    "ClusterRole",
    "ClusterRoleBinding",
    "CustomResourceDefinition",
    "HyperNode",
    "MutatingAdmissionPolicy",
    "MutatingAdmissionPolicyBinding",
    "Namespace",
    "Node",
    "NodeShard",
    "Numatopology",
    "PersistentVolume",
    "PriorityClass",
    "Queue",
    "StorageClass",
    "ValidatingAdmissionPolicy",
    "ValidatingAdmissionPolicyBinding",
    "DeviceClass",
    "ResourceSlice",
}


class RefusedError(Exception):
    """What the API server refused, and why."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(f"{status}: {message}")
        self.status = status


class Client:
    """One user at one API server."""

    def __init__(self, server: str, credentials: Credentials, user: str = ADMIN) -> None:
        self._server = server
        tls = ssl.create_default_context(cafile=str(credentials.certificate))
        tls.verify_flags &= ~ssl.VERIFY_X509_STRICT
        self._http = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(ssl=tls, limit=64),
            headers={"Authorization": f"Bearer {credentials.tokens[user]}"},
            timeout=aiohttp.ClientTimeout(total=30),
        )

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self._http.close()
        # The connections of TLS end a moment after they are closed.
        await asyncio.sleep(0.01)

    async def call(
        self,
        method: str,
        path: str,
        body: object = None,
        *,
        content_type: str = "application/json",
        accept: str = "application/json",
        query: Mapping[str, str] | None = None,
    ) -> Any:
        """Asks again when the server is not ready yet, or busy."""
        headers = {"Accept": accept, "Content-Type": content_type}
        data = None if body is None else json.dumps(body)
        for tries_left in reversed(range(_TRIES)):
            async with self._http.request(
                method, self._server + path, data=data, headers=headers, params=query
            ) as answer:
                text = await answer.text()
                if answer.status == 429 and tries_left:
                    await asyncio.sleep(_AGAIN_SECONDS)
                    continue
                if answer.status >= 400:
                    raise RefusedError(answer.status, _message(text))
                return json.loads(text) if text.startswith(("{", "[")) else text
        raise AssertionError("the last try ends otherwise")

    async def get(self, path: str, **more: Any) -> Any:
        return await self.call("GET", path, **more)

    async def find(self, path: str) -> Object | None:
        """The object, or None when there is none."""
        try:
            found: Object = await self.get(path)
        except RefusedError as error:
            if error.status != 404:
                raise
            return None
        return found

    async def list(self, path: str, **query: str) -> list[Object]:
        items: list[Object] = (await self.get(path, query=query))["items"]
        return items

    async def create(self, body: Object) -> Object:
        created: Object = await self.call("POST", collection_of(body), body)
        return created

    async def create_all(self, bodies: Iterable[Object], at_once: int = 32) -> None:
        """Many objects, several calls at a time, begun in the order given."""
        slots = asyncio.Semaphore(at_once)

        async def one(body: Object) -> None:
            async with slots:
                await self.create(body)

        await asyncio.gather(*(one(body) for body in bodies))

    async def apply(self, body: Object) -> Object:
        """As `kubectl apply --server-side` does."""
        path = f"{collection_of(body)}/{body['metadata']['name']}"
        query = {"fieldManager": "tests", "force": "true", "fieldValidation": "Strict"}
        applied: Object = await self.call("PATCH", path, body, content_type=APPLY, query=query)
        return applied

    async def merge(self, path: str, patch: Object) -> Object:
        merged: Object = await self.call("PATCH", path, patch, content_type=MERGE)
        return merged

    async def delete(self, path: str, grace_seconds: int | None = None) -> None:
        """What is gone already is no error."""
        options = None if grace_seconds is None else {"gracePeriodSeconds": grace_seconds}
        try:
            await self.call("DELETE", path, options)
        except RefusedError as error:
            if error.status != 404:
                raise

    async def watch(self, path: str) -> AsyncIterator[tuple[str, Object]]:
        """What is there, then every change; ends when the server ends it."""
        limit = aiohttp.ClientTimeout(total=None, sock_connect=10)
        async with self._http.get(
            f"{self._server}{path}", params={"watch": "1"}, timeout=limit
        ) as answer:
            if answer.status >= 400:
                raise RefusedError(answer.status, _message(await answer.text()))
            buffer = b""
            async for chunk in answer.content.iter_any():
                *lines, buffer = (buffer + chunk).split(b"\n")
                for line in lines:
                    change = json.loads(line)
                    yield change["type"], change["object"]


def _message(text: str) -> str:
    try:
        return str(json.loads(text).get("message", text))
    except ValueError:
        return text[:500]


def collection_of(body: Object) -> str:
    """The path of the objects of a kind; in the object's namespace if it has one."""
    version, kind = body["apiVersion"], body["kind"]
    base = f"/apis/{version}" if "/" in version else f"/api/{version}"
    plural = _plural(kind)
    if kind in _CLUSTER_KINDS:
        return f"{base}/{plural}"
    return f"{base}/namespaces/{body['metadata'].get('namespace', 'default')}/{plural}"


def _plural(kind: str) -> str:
    word = kind.lower()
    if word.endswith("class"):
        return f"{word}es"
    return f"{word[:-1]}ies" if word.endswith(("cy", "gy")) else f"{word}s"


def path_of(body: Object) -> str:
    return f"{collection_of(body)}/{body['metadata']['name']}"
