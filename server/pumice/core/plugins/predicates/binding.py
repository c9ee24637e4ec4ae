"""Volume binding: which volumes the claims of a pod have, could get or could have provisioned."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import product

import numpy as np
from numpy.typing import NDArray

from pumice.core.cache.storage import VolumeReservation
from pumice.core.cache.tasks import Task
from pumice.core.decisions import VolumeChoice
from pumice.core.model.fit import Mask, Refusal
from pumice.core.model.storage import PersistentVolumeClaim, VolumePhase
from pumice.core.plugins.predicates.volume_filters import not_owner
from pumice.core.plugins.predicates.volume_supply import VolumeSupply
from pumice.core.session.session import Session

NODE_CONFLICT = "node(s) didn't match PersistentVolume's node affinity"
NOTHING_TO_BIND = "node(s) didn't find available persistent volumes to bind"
NO_SPACE = "node(s) did not have enough free storage"
NO_VOLUME = "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)"
UNBOUND_IMMEDIATE = "pod has unbound immediate PersistentVolumeClaims"


@dataclass(slots=True)
class _Plan:
    """Which volumes each node could give to the claims of a task; masks are by row."""

    node_conflict: Mask
    no_volume: Mask
    nothing_to_bind: Mask
    no_space: Mask
    # Claims in the order of choosing, each with the number of the volume it would get by row;
    # -1 where one has to be provisioned.
    choices: list[tuple[PersistentVolumeClaim, NDArray[np.intp]]] = field(default_factory=list)
    numbers: dict[str, int] = field(default_factory=dict)


class VolumeBinding:
    """Plans volume bindings over all nodes at once; reserved volumes are not available to later plans."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._ledger = session.cache.storage.ledger
        self._supply = VolumeSupply(session)
        self._last: tuple[str, int, _Plan] | None = None

    # Before nodes are looked at.

    def why_not_anywhere(self, task: Task) -> str | None:
        for volume, claim in self._session.cache.storage.claims_of(task.pod):
            if claim is None:
                if volume.ephemeral:
                    waiting = "waiting for ephemeral volume controller to create the"
                    return f'{waiting} persistentvolumeclaim "{volume.claim_name}"'
                return f'persistentvolumeclaim "{volume.claim_name}" not found'
            if claim.phase is VolumePhase.LOST:
                lost = f'bound to non-existent persistentvolume "{claim.volume_name}"'
                return f'persistentvolumeclaim "{claim.name}" {lost}'
            if claim.terminating:
                return f'persistentvolumeclaim "{claim.name}" is being deleted'
            if volume.ephemeral and claim.owner_uid != task.pod.uid:
                return not_owner(claim, task)
        if any(not (is_bound(c) or self._supply.waits(c)) for c in self._claims(task)):
            return UNBOUND_IMMEDIATE
        return None

    def _claims(self, task: Task) -> list[PersistentVolumeClaim]:
        known = self._session.cache.storage.claims_of(task.pod)
        return [claim for _, claim in known if claim is not None]

    # Over all nodes.

    def refusals(self, task: Task) -> list[Refusal]:
        plan = self._plan(task)
        of_bound = {NODE_CONFLICT: plan.node_conflict, NO_VOLUME: plan.no_volume}
        of_unbound = {NOTHING_TO_BIND: plan.nothing_to_bind, NO_SPACE: plan.no_space}
        # Empty: nodes without such a reason.
        of_bound[""] = ~(plan.node_conflict | plan.no_volume)
        of_unbound[""] = ~(plan.nothing_to_bind | plan.no_space)
        refusals = []
        for (first, one), (second, two) in product(of_bound.items(), of_unbound.items()):
            rows = one & two
            if (first or second) and rows.any():
                # Kubernetes names a missing volume last.
                order = (second, first) if first == NO_VOLUME else (first, second)
                reason = ", ".join(filter(None, order))
                refusals.append(Refusal(reason, rows, unresolvable=True))
        return refusals

    def _plan(self, task: Task) -> _Plan:
        known = self._last
        version = self._ledger.version
        if known is not None and known[:2] == (task.uid, version):
            return known[2]
        none = np.zeros(len(self._session.table), dtype=np.bool_)
        plan = _Plan(none, none.copy(), none.copy(), none.copy())
        claims = self._claims(task)
        self._check_bound([c for c in claims if is_bound(c)], plan)
        self._find_unbound([c for c in claims if not is_bound(c)], plan)
        self._last = (task.uid, version, plan)
        return plan

    def _check_bound(self, claims: list[PersistentVolumeClaim], plan: _Plan) -> None:
        """Refuses nodes for the first bound claim that they cannot serve."""
        asked = np.ones(len(self._session.table), dtype=np.bool_)
        for claim in claims:
            volume = self._session.cache.storage.volumes.get(claim.volume_name)
            if volume is None:
                plan.no_volume |= asked
                return
            reached = self._supply.reached_by(volume)
            if reached is not None:
                plan.node_conflict |= asked & ~reached
                asked &= reached

    def _find_unbound(self, claims: list[PersistentVolumeClaim], plan: _Plan) -> None:
        table = self._session.table
        asked = np.ones(len(table), dtype=np.bool_)
        nothing = np.full(len(table), -1, dtype=np.intp)
        free = []
        for claim in claims:
            known = self._ledger.get(claim.key)
            node = claim.selected_node if known is None else known.node
            if not node:
                free.append(claim)
                continue
            plan.choices.append((claim, nothing))
            here = np.zeros(len(table), dtype=np.bool_)
            row = table.row_of(node)
            if row is not None:
                here[row] = True
            plan.nothing_to_bind |= asked & ~here
            asked &= here
        for claim in sorted(free, key=lambda c: c.request_bytes):
            rows = self._supply.match(claim, asked, plan.choices, plan.numbers)
            plan.choices.append((claim, rows))
        for claim, rows in plan.choices:
            unfit, full = self._supply.why_not_made(claim, asked & (rows < 0))
            plan.nothing_to_bind |= unfit
            plan.no_space |= full
            asked &= ~(unfit | full)

    # Reservations.

    def reserve(self, task: Task, row: int) -> str | None:
        """Reserves volumes for the task on the node; a text: they are no longer available."""
        plan = self._plan(task)
        if any(mask[row] for mask in (plan.node_conflict, plan.no_volume)):
            return NODE_CONFLICT
        if plan.nothing_to_bind[row] or plan.no_space[row]:
            return NOTHING_TO_BIND
        if not plan.choices:
            return None
        names = list(plan.numbers)
        picked = [(c, names[r[row]] if r[row] >= 0 else "") for c, r in plan.choices]
        node = self._session.table.names[row]
        given = [
            VolumeReservation(claim.key, claim.uid, name)
            if name
            else VolumeReservation(claim.key, node=node)
            for claim, name in picked
        ]
        self._ledger.reserve(task.uid, {each.key: each for each in given})
        choices = tuple(VolumeChoice(claim.name, name) for claim, name in picked)
        self._session.outbox.attach_volumes(task, choices)
        return None

    def unreserve(self, task: Task) -> None:
        if self._ledger.is_open(task.uid):
            self._ledger.unreserve(task.uid)
            self._session.outbox.attach_volumes(task, ())


def is_bound(claim: PersistentVolumeClaim) -> bool:
    return bool(claim.volume_name) and claim.bind_completed
