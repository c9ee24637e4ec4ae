"""An API server in memory: lists, watches, patches, bindings, and the trouble a test asks for."""

import asyncio
import itertools
import json
import re
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from aiohttp import web

from tests.adapters.kubernetes.selectors import has_label, matches_field
from tests.adapters.kubernetes.trouble import Trouble

__all__ = ["FakeApi", "Object", "Trouble", "running_api"]

Object = dict[str, Any]

_PATH = re.compile(
    r"/(?:api|apis/(?P<group>[^/]+))/(?P<version>[^/]+)"
    r"(?:/namespaces/(?P<namespace>[^/]+))?/(?P<plural>[^/]+)(?:/(?P<name>[^/]+))?"
    r"(?:/(?P<sub>[^/]+))?"
)


class FakeApi:
    def __init__(self) -> None:
        self.server = ""
        self.objects: dict[tuple[str, str, str], Object] = {}
        self.changes: list[tuple[int, str, str, Object]] = []
        self.version = 100
        # Watches of older versions are gone.
        self.forgotten = 0
        self.resources = {
            "nodes", "pods", "podgroups.scheduling.volcano.sh", "queues.scheduling.volcano.sh",
            "namespaces", "persistentvolumes", "persistentvolumeclaims", "events", "configmaps",
            "leases.coordination.k8s.io", "customresourcedefinitions.apiextensions.k8s.io",
            "nodeshards.shard.volcano.sh",
        }  # fmt: skip
        self.with_status = {"queues.scheduling.volcano.sh"}
        # Namespaces in which nothing can be created, and namespaces that are not there.
        self.terminating: set[str] = set()
        self.missing_namespaces: set[str] = set()
        self.admission: Callable[[str, Object], Object] = lambda _resource, created: created
        self.trouble: list[Trouble] = []
        self.token = ""
        self.calls: list[tuple[str, str, dict[str, str]]] = []
        self._uids = itertools.count(1)
        self._news = asyncio.Event()
        self._pages: list[tuple[str, list[Object]]] = []
        self.open_watches = 0
        self.in_flight = 0  # Writes without an answer.

    def put(self, resource: str, body: Object) -> Object:
        metadata = body.setdefault("metadata", {})
        key = (resource, metadata.get("namespace", ""), metadata["name"])
        old = self.objects.get(key)
        metadata.setdefault("uid", old["metadata"]["uid"] if old else f"uid-{next(self._uids)}")
        return self._store("MODIFIED" if old else "ADDED", key, body)

    def remove(self, resource: str, namespace: str, name: str) -> None:
        key = (resource, namespace, name)
        body = self.objects.pop(key)
        self._change("DELETED", key, body)

    def get(self, resource: str, namespace: str, name: str) -> Object:
        return self.objects[resource, namespace, name]

    def bookmark(self, resource: str) -> None:
        self.version += 1
        body: Object = {"metadata": {"resourceVersion": str(self.version)}}
        self.changes.append((self.version, "BOOKMARK", resource, body))
        self._wake()

    def error(self, resource: str, code: int) -> None:
        """Tells every watcher of a resource that something is wrong."""
        self.version += 1
        body = {"kind": "Status", "code": code, "message": "too old"}
        self.changes.append((self.version, "ERROR", resource, body))
        self._wake()

    def end_watches(self, resource: str) -> None:
        """Ends the watches of a resource that are open now."""
        self.version += 1
        self.changes.append((self.version, "END", resource, {}))
        self._wake()

    def expire(self, resource: str) -> None:
        """Ends watches that are open, and refuses those that are about to be."""
        self.error(resource, 410)
        self.forget_history()

    def forget_history(self) -> None:
        self.forgotten = self.version

    def made(self, method: str, path: str) -> list[tuple[str, str, dict[str, str]]]:
        return [call for call in self.calls if call[0] == method and re.search(path, call[1])]

    def _store(self, change: str, key: tuple[str, str, str], body: Object) -> Object:
        self.version += 1
        body["metadata"]["resourceVersion"] = str(self.version)
        self.objects[key] = body
        self.changes.append((self.version, change, key[0], json.loads(json.dumps(body))))
        self._wake()
        return body

    def _change(self, change: str, key: tuple[str, str, str], body: Object) -> None:
        self.version += 1
        body["metadata"]["resourceVersion"] = str(self.version)
        self.changes.append((self.version, change, key[0], json.loads(json.dumps(body))))
        self._wake()

    def _wake(self) -> None:
        news, self._news = self._news, asyncio.Event()
        news.set()

    async def handle(self, request: web.Request) -> web.StreamResponse:
        query = dict(request.query)
        self.calls.append((request.method, request.path, query))
        if self.token and request.headers.get("Authorization") != f"Bearer {self.token}":
            return _status(401, "Unauthorized", "Unauthorized")
        if request.method == "GET":
            return await self._treat(request)
        self.in_flight += 1
        try:
            return await self._treat(request)
        finally:
            self.in_flight -= 1

    async def _treat(self, request: web.Request) -> web.StreamResponse:
        for trouble in self.trouble:
            if trouble.strikes(request.method, request.path_qs):
                return await self._suffer(trouble, request)
        return await self._answer(request)

    async def _suffer(self, trouble: Trouble, request: web.Request) -> web.StreamResponse:
        # Read now: the client may be gone later, and the call takes effect all the same.
        await request.read()
        await asyncio.sleep(trouble.seconds)
        if trouble.passes:
            answer = await self._answer(request)
            await asyncio.sleep(trouble.answer_seconds)
            return answer
        if trouble.loses_answer:
            if not request.query.get("watch"):
                await self._answer(request)
            if request.transport is not None:
                request.transport.abort()
            return web.Response()
        return _status(trouble.status, "Trouble", trouble.message, trouble.headers)

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        if request.path == "/version":
            return web.json_response({"major": "1"})
        found = _PATH.fullmatch(request.path)
        if found is None:
            return self._discovery(request.path)
        plural, group, namespace = found["plural"], found["group"], found["namespace"] or ""
        resource = f"{plural}.{group}" if group else plural
        if request.method == "POST" and namespace in self.terminating:
            causes = [{"reason": "NamespaceTerminating", "field": "metadata.namespace"}]
            return _status(403, "Forbidden", "it is being terminated", causes=causes)
        if namespace in self.missing_namespaces:
            return _status(404, "NotFound", f'namespaces "{namespace}" not found')
        if resource not in self.resources:
            return _status(404, "NotFound", "the server could not find the requested resource")
        if found["name"] is None:
            if request.method == "POST":
                return await self._create(request, resource, namespace)
            if request.query.get("watch"):
                return await self._watch(request, resource)
            return self._list(request, resource)
        key = (resource, namespace, found["name"])
        return await self._one(request, key, found["sub"] or "")

    def _discovery(self, path: str) -> web.Response:
        group = path.split("/")[2]
        mine = [r.partition(".")[0] for r in self.resources if r.endswith(f".{group}")]
        with_status = [r.partition(".")[0] for r in self.with_status if r.endswith(f".{group}")]
        names = [*mine, *(f"{name}/status" for name in with_status)]
        return web.json_response({"resources": [{"name": name} for name in names]})

    def _selected(self, request: web.Request) -> Callable[[Object], bool]:
        terms = [t for t in request.query.get("fieldSelector", "").split(",") if t]
        labels = [t for t in request.query.get("labelSelector", "").split(",") if t]
        return lambda body: (
            all(matches_field(body, term) for term in terms)
            and all(has_label(body, term) for term in labels)
        )

    def _list(self, request: web.Request, resource: str) -> web.Response:
        matches = self._selected(request)
        start, _, page = request.query.get("continue", "0:").partition(":")
        if page:
            # The pages of one list show one version.
            version, items = self._pages[int(page)]
        else:
            held = (body for key, body in sorted(self.objects.items()) if key[0] == resource)
            items, version = json.loads(json.dumps([*filter(matches, held)])), str(self.version)
            self._pages.append((version, items))
            page = str(len(self._pages) - 1)
        end = int(start) + (int(request.query.get("limit", "0")) or len(items))
        metadata = {"resourceVersion": version}
        if end < len(items):
            metadata["continue"] = f"{end}:{page}"
        listed = {"kind": "ThingList", "metadata": metadata, "items": items[int(start) : end]}
        return web.json_response(listed)

    async def _watch(self, request: web.Request, resource: str) -> web.StreamResponse:
        since = int(request.query["resourceVersion"])
        if since < self.forgotten:
            return _status(410, "Expired", "too old resource version")
        matches = self._selected(request)
        # As a real server: an object that leaves the selection is deleted, one that enters it added.
        selected = self._selected_at(since, resource, matches)
        born = self.version
        response = web.StreamResponse()
        await response.prepare(request)
        self.open_watches += 1
        try:
            while True:
                news = self._news
                for version, change, name, body in self.changes:
                    if version <= since or name != resource:
                        continue
                    since = version
                    if change in {"ERROR", "END"} and version <= born:
                        continue
                    if change == "END":
                        return response
                    seen = _seen(change, body, matches, selected)
                    if seen:
                        line = json.dumps({"type": seen, "object": body}) + "\n"
                        await response.write(line.encode())
                await news.wait()
        except (ConnectionError, asyncio.CancelledError):
            return response
        finally:
            self.open_watches -= 1

    def _selected_at(
        self, since: int, resource: str, matches: Callable[[Object], bool]
    ) -> set[str]:
        """The uids of the objects that a watch from this version begins with."""
        uids: set[str] = set()
        for version, change, name, body in self.changes:
            if version <= since and name == resource:
                _seen(change, body, matches, uids)
        return uids

    async def _create(self, request: web.Request, resource: str, namespace: str) -> web.Response:
        body = await request.json()
        if namespace:
            body["metadata"]["namespace"] = namespace
        key = (resource, namespace, body["metadata"]["name"])
        if key in self.objects:
            return _status(409, "AlreadyExists", f"{key[2]} already exists")
        made = self.put(resource, self.admission(resource, body))
        if "as=PartialObjectMetadata" in request.headers.get("Accept", ""):
            made = {"kind": "PartialObjectMetadata", "metadata": made["metadata"]}
        return web.json_response(made, status=201)

    async def _one(
        self, request: web.Request, key: tuple[str, str, str], sub: str
    ) -> web.StreamResponse:
        if sub == "status" and key[0] not in self.with_status | {"pods"}:
            return _status(404, "NotFound", "the server could not find the requested resource")
        if key not in self.objects:
            return _status(404, "NotFound", f'{key[0]} "{key[2]}" not found')
        held = self.objects[key]
        match request.method:
            case "GET":
                return web.json_response(held)
            case "POST" if sub == "binding":
                return self._bind(key, held, await request.json())
            case "PUT":
                return self._replace(key, held, await request.json())
            case "PATCH":
                return self._patch(key, held, sub, await request.json(), request.content_type)
            case "DELETE":
                return self._delete(key, held, await request.json())
        return _status(405, "MethodNotAllowed", request.method)

    def _bind(self, key: tuple[str, str, str], held: Object, body: Object) -> web.Response:
        if body["metadata"].get("uid") != held["metadata"]["uid"]:
            return _status(409, "Conflict", "Precondition failed: UID in precondition")
        if held["spec"].get("nodeName"):
            return _status(409, "Conflict", "pod is already assigned to node")
        if held["metadata"].get("deletionTimestamp"):
            return _status(409, "Conflict", "pod is being deleted, cannot be assigned to a host")
        held["spec"]["nodeName"] = body["target"]["name"]
        held["metadata"].setdefault("annotations", {}).update(
            body["metadata"].get("annotations", {})
        )
        self._store("MODIFIED", key, held)
        return _status(201, "", "")

    def _replace(self, key: tuple[str, str, str], held: Object, body: Object) -> web.Response:
        if body["metadata"].get("resourceVersion") != held["metadata"]["resourceVersion"]:
            return _status(409, "Conflict", "the object has been modified")
        return web.json_response(self._store("MODIFIED", key, body))

    def _patch(
        self, key: tuple[str, str, str], held: Object, sub: str, patch: Any, content_type: str
    ) -> web.Response:
        if content_type == "application/json-patch+json":
            if patch[0]["value"] != held["metadata"]["uid"] or "status" not in held:
                return _status(422, "Invalid", "the server rejected our request")
            if sub == "status" or key[0] not in self.with_status:
                held["status"]["allocated"] = patch[1]["value"]
            return web.json_response(self._store("MODIFIED", key, held))
        metadata = patch.get("metadata", {})
        if metadata.get("uid", held["metadata"]["uid"]) != held["metadata"]["uid"]:
            return _status(422, "Invalid", "metadata.uid: Invalid value: field is immutable")
        version = held["metadata"]["resourceVersion"]
        if metadata.get("resourceVersion", version) != version:
            return _status(409, "Conflict", "the object has been modified")
        if sub != "status" and key[0] in self.with_status:
            patch.pop("status", None)
        if sub == "status":
            patch = {"status": patch["status"]}
        if "spec" in patch and "generation" in held["metadata"]:
            held["metadata"]["generation"] += 1
        _merge(held, patch, strategic="strategic" in content_type)
        return web.json_response(self._store("MODIFIED", key, held))

    def _delete(self, key: tuple[str, str, str], held: Object, options: Object) -> web.Response:
        wanted = options.get("preconditions", {})
        if wanted.get("uid", held["metadata"]["uid"]) != held["metadata"]["uid"]:
            return _status(409, "Conflict", "the UID in the precondition does not match")
        version = held["metadata"]["resourceVersion"]
        if wanted.get("resourceVersion", version) != version:
            return _status(409, "Conflict", "the ResourceVersion in the precondition")
        if key[0] != "pods":
            # Only pods have a grace period.
            self.remove(*key)
            return web.json_response({"kind": "Status", "status": "Success"})
        held["metadata"]["deletionTimestamp"] = "2026-11-01T00:00:00Z"
        return web.json_response(self._store("MODIFIED", key, held))


def _seen(change: str, body: Object, matches: Callable[[Object], bool], selected: set[str]) -> str:
    """The type of the event that a watch with a selector gets; "" for none."""
    uid = body.get("metadata", {}).get("uid")
    if uid is None:
        return change
    before = uid in selected
    if change != "DELETED" and matches(body):
        selected.add(uid)
        return "MODIFIED" if before else "ADDED"
    selected.discard(uid)
    return "DELETED" if before else ""


def _merge(held: Object, patch: Object, *, strategic: bool) -> None:
    for name, value in patch.items():
        if value is None:
            held.pop(name, None)
        elif isinstance(value, dict):
            _merge(held.setdefault(name, {}), value, strategic=strategic)
        elif strategic and name == "conditions":
            types = {condition["type"] for condition in value}
            kept = [c for c in held.get(name, []) if c["type"] not in types]
            held[name] = [*kept, *value]
        elif strategic and name == "schedulingGates":
            gone = {gate["name"] for gate in value if gate.get("$patch") == "delete"}
            held[name] = [g for g in held.get(name, []) if g["name"] not in gone]
        else:
            held[name] = value


def _status(
    code: int,
    reason: str,
    message: str,
    headers: dict[str, str] | None = None,
    causes: list[dict[str, str]] | None = None,
) -> web.Response:
    body: Object = {"kind": "Status", "code": code, "reason": reason, "message": message}
    if causes:
        body["details"] = {"causes": causes}
    return web.json_response(body, status=code, headers=headers)


@asynccontextmanager
async def running_api() -> AsyncIterator[FakeApi]:
    api = FakeApi()
    app = web.Application()
    app.router.add_route("*", "/{tail:.*}", api.handle)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    server: Any = site._server
    api.server = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    try:
        yield api
    finally:
        await runner.cleanup()
