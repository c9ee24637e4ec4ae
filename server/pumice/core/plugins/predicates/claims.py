"""Resource claims of pods: which nodes can give their devices, and the devices that they get."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from pumice.core.cache.device_catalog import DeviceCatalog, DeviceId, PooledDevice
from pumice.core.cache.tasks import Task
from pumice.core.cel import compiled
from pumice.core.model.devices import (
    ClaimChoice,
    DeviceAllocation,
    DeviceSubRequest,
    ResourceClaim,
)
from pumice.core.model.fit import Mask, Refusal
from pumice.core.plugins.predicates.allocator import (
    CANNOT_ALLOCATE,
    Allocator,
    Found,
    UndecidedError,
)
from pumice.core.plugins.predicates.device_supply import DevicesInUse
from pumice.core.session.session import Session

NOT_ON_NODE = "resourceclaim not available on the node"
CANNOT_WAIT = "pod with unallocated resource claims cannot wait for room on a node"
_FULL = 100

# What claims ask for, and the devices in use that matter: equal ones have equal results.
_Key = tuple[object, ...]


class DeviceClaims:
    """Allocates devices for claims over all nodes; what was reserved is not given out again."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._devices = session.cache.devices
        self._ledger = self._devices.ledger
        self._found: dict[_Key, Found | str | None] = {}
        self._used: tuple[tuple[object, ...], dict[str, DevicesInUse]] = ((), {})
        self._reach: dict[int, Mask] = {}
        self._plan: tuple[str, int, list[Found | str | None]] | None = None

    # Before nodes are looked at.

    def why_not_anywhere(self, task: Task) -> str | None:
        for wanted in task.pod.spec.resource_claims:
            if not wanted.claim_name:
                return f'waiting for the resourceclaim of "{wanted.name}" to be created'
            claim = self._devices.claims.get(f"{task.pod.namespace}/{wanted.claim_name}")
            if claim is None:
                return f'resourceclaim "{wanted.claim_name}" not found'
            if claim.terminating:
                return f'resourceclaim "{claim.name}" is being deleted'
            if claim.allocation is None:
                problem = self._why_not_allocatable(claim, task)
                if problem is not None:
                    return problem
        return None

    def _why_not_allocatable(self, claim: ResourceClaim, task: Task) -> str | None:
        if self._ledger.allocation_of(claim.key) is not None and not self._ledger.is_open(task.uid):
            return f'resourceclaim "{claim.name}" is in the process of being allocated'
        for request in claim.requests:
            wanted = (request.exactly,) if request.exactly else request.first_available
            if not wanted:
                return f'resourceclaim "{claim.name}": request {request.name} is of a newer kind'
            for sub_request in wanted:
                problem = self._why_not_requestable(sub_request)
                if problem is not None:
                    return f'resourceclaim "{claim.name}": request {request.name}: {problem}'
        return None

    def _why_not_requestable(self, wanted: DeviceSubRequest) -> str | None:
        known = self._devices.classes.get(wanted.device_class_name)
        if known is None:
            return f"device class {wanted.device_class_name} does not exist"
        for selector in (*known.selectors, *wanted.selectors):
            found = compiled(selector)
            if isinstance(found, str):
                return f"selector {selector!r} cannot be evaluated: {found}"
        return None

    # Over nodes.

    def refusals(self, task: Task) -> list[Refusal]:
        claims = self._devices.claims_of(task)
        table = self._session.table
        elsewhere: Mask = np.zeros(len(table), dtype=np.bool_)
        for claim in claims:
            terms = None if claim.allocation is None else claim.allocation.node_terms
            if terms is not None:
                elsewhere |= ~self._session.labels.matches_any(terms)
        found = [Refusal(NOT_ON_NODE, elsewhere, unresolvable=True)]
        masks: dict[str, Mask] = {}
        for row, result in enumerate(self._results(task, claims)):
            if not isinstance(result, Found):
                reason = CANNOT_ALLOCATE if result is None else result
                masks.setdefault(reason, np.zeros(len(table), dtype=np.bool_))[row] = True
        return found + [Refusal(r, mask, unresolvable=True) for r, mask in masks.items()]

    def scores(self, task: Task, rows: NDArray[np.intp]) -> NDArray[np.float64] | None:
        """Earlier alternatives are better; None where no claim has alternatives."""
        claims = self._devices.claims_of(task)
        if not any(r.first_available for c in claims if c.allocation is None for r in c.requests):
            return None
        results = self._results(task, claims)
        points = [r.score if isinstance(r, Found) else 0 for r in map(results.__getitem__, rows)]
        most = max(points, default=0)
        shares = [_FULL * point // most if most else 0 for point in points]
        return np.array(shares, dtype=np.float64)

    def _results(self, task: Task, claims: list[ResourceClaim]) -> list[Found | str | None]:
        """By row, the devices of the claims that are not allocated; a text: it cannot be decided."""
        known = self._plan
        if known is not None and known[:2] == (task.uid, self._ledger.version):
            return known[2]
        wanted = [claim for claim in claims if claim.allocation is None]
        results = [self._result(row, wanted) for row in range(len(self._session.table))]
        self._plan = (task.uid, self._ledger.version, results)
        return results

    def _result(self, row: int, claims: list[ResourceClaim]) -> Found | str | None:
        if not claims:
            return Found((), 0)
        name, used = self._session.table.names[row], self._in_use()
        mine, shared = used.get(name, _NO_DEVICES), used.get("", _NO_DEVICES)
        asked = tuple((claim.key, claim.requests, claim.constraints) for claim in claims)
        key = (name, mine, shared, asked)
        if key not in self._found:
            self._found[key] = self._search(row, name, claims, mine | shared)
        return self._found[key]

    def _search(
        self, row: int, node: str, claims: list[ResourceClaim], used: DevicesInUse
    ) -> Found | str | None:
        catalog = self.catalog
        devices = [*catalog.by_node.get(node, ())]
        devices += [
            device for number, device in enumerate(catalog.shared) if self._reaches(number, row)
        ]
        allocator = Allocator(catalog, self._devices.classes.get, devices, used, node)
        try:
            return allocator.find(claims, self._session.now_ns)
        except UndecidedError as error:
            return str(error)

    @property
    def catalog(self) -> DeviceCatalog:
        return self._devices.catalog()

    def _reaches(self, number: int, row: int) -> bool:
        """Whether a node reaches a device that is not of one node alone."""
        device: PooledDevice = self.catalog.shared[number]
        if device.node_terms is None:
            return device.all_nodes
        if number not in self._reach:
            self._reach[number] = self._session.labels.matches_any(device.node_terms)
        return bool(self._reach[number][row])

    def _in_use(self) -> dict[str, DevicesInUse]:
        """Devices in use by node; those of several nodes are under an empty name."""
        version = (self._ledger.version, self._devices.claims.version)
        if self._used[0] != version:
            whole: dict[str, set[DeviceId]] = {}
            parts: dict[str, list[tuple[DeviceId, str, int]]] = {}
            for allocation in self._allocations():
                for device in allocation.devices:
                    known = self.catalog.by_id.get(device.id)
                    where = "" if known is None else known.node_name
                    if device.share_id:
                        taken = device.consumed_capacity or (("", 0),)
                        parts.setdefault(where, []).extend((device.id, n, a) for n, a in taken)
                    elif not device.admin_access:
                        whole.setdefault(where, set()).add(device.id)
            nodes = dict.fromkeys((*whole, *parts))
            found = {
                n: DevicesInUse(frozenset(whole.get(n, ())), tuple(sorted(parts.get(n, ()))))
                for n in nodes
            }
            self._used = (version, found)
        return self._used[1]

    def _allocations(self) -> Iterable[DeviceAllocation]:
        for claim in self._devices.claims:
            if claim.allocation is not None:
                yield claim.allocation
        yield from self._ledger.allocations()

    # Taking and giving back.

    def reserve(self, task: Task, row: int) -> str | None:
        """Reserves the devices of the task's claims on a node; a text: they are not available."""
        claims = self._devices.claims_of(task)
        result = self._results(task, claims)[row]
        if not isinstance(result, Found):
            return CANNOT_ALLOCATE if result is None else result
        given = dict(result.allocations)
        self._ledger.take(task.uid, given)
        choices = tuple(ClaimChoice(c.name, c.uid, given.get(c.key)) for c in claims)
        self._session.outbox.attach_claims(task, choices)
        return None

    def why_not_pipelined(self, task: Task) -> str | None:
        """As in Volcano, a pod cannot wait for room on a node before its claims are allocated."""
        waits = any(claim.allocation is None for claim in self._devices.claims_of(task))
        return CANNOT_WAIT if waits else None

    def give_back(self, task: Task) -> None:
        if self._ledger.is_open(task.uid):
            self._ledger.give_back(task.uid)
            self._session.outbox.attach_claims(task, ())


_NO_DEVICES = DevicesInUse()
