"""ResourceClaims of pods: the nodes with devices for them, and the devices that they get."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import compress

import numpy as np
from numpy.typing import NDArray

from pumice.core.cache.device_catalog import DeviceCatalog, DeviceId
from pumice.core.cache.devices import ExtendedClaim, claim_name
from pumice.core.cache.tasks import Task
from pumice.core.cel import compiled
from pumice.core.model.devices import (
    AllocatedDevice,
    ClaimChoice,
    DeviceAllocation,
    DeviceSubRequest,
    ResourceClaim,
)
from pumice.core.model.fit import Mask, Refusal, refusals_by_row
from pumice.core.model.memo import Memo, Versioned
from pumice.core.plugins.predicates.allocator import (
    CANNOT_ALLOCATE,
    Allocator,
    DevicesInUse,
    Found,
    UndecidedError,
)
from pumice.core.plugins.predicates.filters import TaskFilter
from pumice.core.session.session import Session

NOT_ON_NODE = "resourceclaim not available on the node"
CANNOT_PIPELINE = "pod with unallocated resource claims cannot be pipelined"
_MAX_NODE_SCORE = 100

# All that the result of a search depends on: the claims, and the devices in use.
_Key = tuple[object, ...]


class DeviceClaims(TaskFilter):
    """Finds devices for claims on all nodes; reserved devices count as used."""

    name = "DynamicResources"

    def __init__(self, session: Session) -> None:
        self._session = session
        self._devices = session.cache.devices
        self._reservations, self._extended = self._devices.reservations, self._devices.extended
        self._found: dict[_Key, Found | str] = {}
        self._used = Versioned(
            lambda: (self._reservations.version, self._devices.claims.version), self._in_use
        )
        # By number of a device that is not bound to one node.
        self._reach = Memo(self._reached_by)
        self._plan: tuple[str, int, list[Found | str]] | None = None

    # Before nodes are filtered.

    def why_not_anywhere(self, task: Task) -> str | None:
        for reference in task.pod.spec.resource_claims:
            if not reference.claim_name:
                return f'waiting for the resourceclaim of "{reference.name}" to be created'
            claim = self._devices.claims.get(f"{task.pod.namespace}/{reference.claim_name}")
            if claim is None:
                return f'resourceclaim "{reference.claim_name}" not found'
            if claim.terminating:
                return f'resourceclaim "{claim.name}" is being deleted'
            if claim.allocation is None:
                problem = self._why_not_allocatable(claim, task)
                if problem is not None:
                    return problem
        for resource in self._extended.of(task.class_.amounts):
            class_ = self._extended.class_behind(resource)
            problem = self._why_not_requestable(DeviceSubRequest(device_class_name=class_))
            if problem is None and not task.pod.spec.containers:
                problem = "it is not known which container requests it"
            if problem is not None:
                return f"extended resource {resource}: {problem}"
        return None

    def _why_not_allocatable(self, claim: ResourceClaim, task: Task) -> str | None:
        if self._reservations.get(claim.key) is not None and not self._reservations.is_open(
            task.uid
        ):
            return f"resource claim {claim.key} is in the process of being allocated"
        for request in claim.requests:
            alternatives = (request.exactly,) if request.exactly else request.first_available
            if not alternatives:
                return f'resourceclaim "{claim.name}": {request.name} has neither exactly nor firstAvailable'
            for sub_request in alternatives:
                problem = self._why_not_requestable(sub_request)
                if problem is not None:
                    return f'resourceclaim "{claim.name}": request {request.name}: {problem}'
        return None

    def _why_not_requestable(self, request: DeviceSubRequest) -> str | None:
        class_ = self._devices.classes.get(request.device_class_name)
        if class_ is None:
            return f"device class {request.device_class_name} does not exist"
        for selector in (*class_.selectors, *request.selectors):
            found = compiled(selector)
            if isinstance(found, str):
                return f"selector {selector!r} cannot be evaluated: {found}"
        return None

    # Predicates and scores.

    def refusals(self, task: Task) -> list[Refusal]:
        claims = self._devices.claims_of(task)
        table = self._session.table
        not_on_node: Mask = np.zeros(len(table), dtype=np.bool_)
        for claim in claims:
            terms = None if claim.allocation is None else claim.allocation.node_terms
            if terms is not None:
                not_on_node |= ~self._session.labels.matches_any(terms)
        without_devices: dict[tuple[str, bool], list[int]] = {}
        for row, result in enumerate(self._results(task, claims)):
            if not isinstance(result, Found):
                without_devices.setdefault((result, True), []).append(row)
        return [
            Refusal(NOT_ON_NODE, not_on_node, unresolvable=True),
            *refusals_by_row(without_devices, len(table)),
        ]

    def scores(self, task: Task, rows: NDArray[np.intp]) -> NDArray[np.float64] | None:
        """Scores nodes by the alternatives that claims get; None: no claim has alternatives."""
        claims = self._devices.claims_of(task)
        if not any(r.first_available for c in claims if c.allocation is None for r in c.requests):
            return None
        results = self._results(task, claims)
        points = [r.score if isinstance(r, Found) else 0 for r in map(results.__getitem__, rows)]
        most = max(points, default=0)
        shares = [_MAX_NODE_SCORE * point // most if most else 0 for point in points]
        return np.array(shares, dtype=np.float64)

    def _results(self, task: Task, claims: list[ResourceClaim]) -> list[Found | str]:
        """By row, the devices of the claims without an allocation; a text says why there are none."""
        known = self._plan
        if known is not None and known[:2] == (task.uid, self._reservations.version):
            return known[2]
        extended = self._claims_by_row(task)
        fits = self._has_idle(task)
        results = [
            self._result(task, row, claims, extended(row)) if fits[row] else _NOTHING
            for row in range(len(self._session.table))
        ]
        self._plan = (task.uid, self._reservations.version, results)
        return results

    def _result(
        self, task: Task, row: int, claims: list[ResourceClaim], extended: ExtendedClaim | None
    ) -> Found | str:
        unallocated = [claim for claim in claims if claim.allocation is None]
        if extended is not None:
            unallocated.append(extended[0])
        if not unallocated:
            return _NOTHING
        name, used = self._session.table.names[row], self._used.get()
        local, shared = used.get(name, _NO_DEVICES), used.get("", _NO_DEVICES)
        left_over = _NO_DEVICES if extended is None else self._left_over(task)
        requests = tuple((claim.key, claim.requests, claim.constraints) for claim in unallocated)
        key = (name, local, shared, left_over, requests)
        if key not in self._found:
            self._found[key] = self._search(row, name, unallocated, (local | shared) - left_over)
        return self._found[key]

    def _search(
        self, row: int, node: str, claims: list[ResourceClaim], used: DevicesInUse
    ) -> Found | str:
        catalog = self.catalog
        devices = [*catalog.by_node.get(node, ())]
        devices += [
            device for number, device in enumerate(catalog.shared) if self._reach[number][row]
        ]
        allocator = Allocator(catalog, self._devices.classes.get, devices, used, node)
        try:
            return allocator.find(claims, self._session.now_ns) or CANNOT_ALLOCATE
        except UndecidedError as error:
            return str(error)

    @property
    def catalog(self) -> DeviceCatalog:
        return self._devices.catalog()

    def _reached_by(self, number: int) -> Mask:
        """The nodes that reach a device that is not bound to one node."""
        device = self.catalog.shared[number]
        if device.node_terms is None:
            return np.full(len(self._session.table), device.all_nodes)
        return self._session.labels.matches_any(device.node_terms)

    # Extended resources that are backed by devices.

    def _claims_by_row(self, task: Task) -> Callable[[int], ExtendedClaim | None]:
        """By row, the claim for the extended resources that devices back on that node."""
        columns = self._columns(task)
        if not columns:
            return lambda _row: None
        names = list(columns)
        by_devices = self._session.table.kube_allocatable[list(columns.values())] == 0
        claim_of = Memo[tuple[bool, ...], ExtendedClaim](
            lambda which: self._extended.claim_for(task.pod, [*compress(names, which)])
        )
        return lambda row: claim_of[tuple(by_devices[:, row])] if by_devices[:, row].any() else None

    def _has_idle(self, task: Task) -> Mask:
        """The nodes with enough of the extended resources; only these are searched."""
        table, columns = self._session.table, list(self._columns(task).values())
        needs = table.vector(task.class_)[columns]
        fits: Mask = np.logical_and.reduce(table.idle[columns] >= needs[:, None], axis=0)
        return fits

    def _columns(self, task: Task) -> dict[str, int]:
        """The extended resources of a task that devices can back, with their columns."""
        column_of = self._session.table.column_of
        found = {name: column_of(name) for name in self._extended.of(task.class_.amounts)}
        return {name: column for name, column in found.items() if column is not None}

    def _left_over(self, task: Task) -> DevicesInUse:
        """The devices of a claim that a failed bind of the pod has left; the pod can use them."""
        claim = self._devices.claims.get(f"{task.pod.namespace}/{claim_name(task.pod)}")
        if claim is None or claim.owner_uid != task.uid or claim.allocation is None:
            return _NO_DEVICES
        return _in_use_by_node([claim.allocation], lambda _device: "").get("", _NO_DEVICES)

    def _in_use(self) -> dict[str, DevicesInUse]:
        """The used devices by node; those that are not bound to one node are under the empty name."""
        by_id = self.catalog.by_id

        def node_of(device: AllocatedDevice) -> str:
            known = by_id.get(device.id)
            return "" if known is None else known.node_name

        return _in_use_by_node(self._allocations(), node_of)

    def _allocations(self) -> Iterable[DeviceAllocation]:
        for claim in self._devices.claims:
            if claim.allocation is not None:
                yield claim.allocation
        yield from self._reservations.values()

    # Reservations.

    def reserve(self, task: Task, row: int) -> str | None:
        claims = self._devices.claims_of(task)
        extended = self._claims_by_row(task)(row)
        result = self._result(task, row, claims, extended)
        if not isinstance(result, Found):
            return result
        allocations = dict(result.allocations)
        self._reservations.reserve(task.uid, allocations)
        choices = [ClaimChoice(c.name, c.uid, allocations.get(c.key)) for c in claims]
        if extended is not None:
            claim, mappings = extended
            new = ClaimChoice(claim.name, "", allocations[claim.key], claim.requests, mappings)
            choices.append(new)
        self._session.outbox.attach_claims(task, tuple(choices))
        return None

    def why_not_pipelined(self, task: Task) -> str | None:
        """Why a task cannot be pipelined: as in Volcano, its claims must be allocated before."""
        claims = self._devices.claims_of(task)
        return CANNOT_PIPELINE if any(claim.allocation is None for claim in claims) else None

    def unreserve(self, task: Task) -> None:
        if self._reservations.is_open(task.uid):
            self._reservations.unreserve(task.uid)
            self._session.outbox.attach_claims(task, ())


_NO_DEVICES = DevicesInUse()
_NOTHING = Found((), 0)


def _in_use_by_node(
    allocations: Iterable[DeviceAllocation], node_of: Callable[[AllocatedDevice], str]
) -> dict[str, DevicesInUse]:
    """The devices of allocations, by node."""
    whole: dict[str, set[DeviceId]] = {}
    parts: dict[str, list[tuple[DeviceId, str, int]]] = {}
    for device in (device for allocation in allocations for device in allocation.devices):
        node = node_of(device)
        if device.share_id:
            consumed = device.consumed_capacity or (("", 0),)
            parts.setdefault(node, []).extend((device.id, n, a) for n, a in consumed)
        elif not device.admin_access:
            whole.setdefault(node, set()).add(device.id)
    return {
        node: DevicesInUse(frozenset(whole.get(node, ())), tuple(sorted(parts.get(node, ()))))
        for node in dict.fromkeys((*whole, *parts))
    }
