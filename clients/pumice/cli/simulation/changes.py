"""Changes of a scenario's cluster between its cycles, in addition to the decisions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pumice.cli.errors import InputProblem
from pumice.manifests import translate_documents
from pumice.v1.object_pb2 import ClusterObject, Kind, ObjectRef
from pumice.v1.pod_pb2 import POD_PHASE_FAILED, POD_PHASE_SUCCEEDED, Pod

if TYPE_CHECKING:
    # At run time this would load the engine, which only runs of scenarios need.
    from pumice.testing.world import World

_ENDED = (POD_PHASE_SUCCEEDED, POD_PHASE_FAILED)
# Kind, namespace and name.
Key = tuple[str, str, str]


@dataclass(frozen=True, slots=True)
class Change:
    """An object that is created or updated, or one that is deleted."""

    key: Key
    # None if the object is deleted.
    upsert: ClusterObject | None = None
    has_status: bool = False


def read_changes(value: Any, cycles: int, source: str) -> tuple[tuple[Change, ...], ...]:
    """Reads one list of changes for each gap between cycles. Raises InputProblem."""
    if not isinstance(value, list) or len(value) >= max(cycles, 1) + 1:
        raise invalid_value(
            source, "changes", value, f"a list of at most {cycles} lists, one per gap"
        )
    return tuple(
        tuple(
            _read(entry, source, f"changes[{gap}][{number}]")
            for number, entry in enumerate(_entries(entries, source, f"changes[{gap}]"))
        )
        for gap, entries in enumerate(value)
    )


def _entries(value: Any, source: str, where: str) -> Sequence[Any]:
    if not isinstance(value, list):
        raise invalid_value(source, where, value, "a list of changes")
    return value


def _read(entry: Any, source: str, where: str) -> Change:
    if not isinstance(entry, Mapping) or len(entry) != 1:
        raise invalid_value(source, where, entry, '{"upsert": object} or {"delete": {kind, name}}')
    ((what, held),) = entry.items()
    if what not in ("upsert", "delete") or not isinstance(held, Mapping):
        raise invalid_value(source, where, entry, '{"upsert": object} or {"delete": {kind, name}}')
    if what == "delete":
        return Change(_key(held, source, where))
    translation = translate_documents([held], f"{source} {where}")
    if translation.errors:
        raise InputProblem(str(translation.errors[0]))
    if len(translation.objects) != 1:
        raise invalid_value(source, where, held.get("kind"), "a kind that scheduling reads")
    key = _key({"kind": held.get("kind"), **held.get("metadata", {})}, source, where)
    return Change(key, translation.objects[0], "status" in held)


def _key(entry: Mapping[str, Any], source: str, where: str) -> Key:
    parts = (entry.get("kind"), entry.get("namespace", ""), entry.get("name"))
    if not all(isinstance(part, str) for part in parts) or not parts[0] or not parts[2]:
        raise invalid_value(
            source, where, dict(entry), "kind, name and, for namespaced kinds, namespace"
        )
    return parts  # type: ignore[return-value]


class ChangeApplier:
    """Applies changes to the objects of a running scenario."""

    def __init__(self, world: World, objects: Iterable[ClusterObject]) -> None:
        self._world = world
        self._uids: dict[Key, str] = {}
        for held in objects:
            self._note(held)

    def _note(self, held: ClusterObject) -> None:
        field = held.WhichOneof("object")
        if field is not None:
            item = getattr(held, field)
            kind = "".join(part.title() for part in field.split("_"))
            self._uids[kind, getattr(item, "namespace", ""), item.name] = item.uid

    def apply(self, changes: Iterable[Change]) -> tuple[list[ClusterObject], list[ObjectRef]]:
        """Applies changes; returns the objects that they add and those that they delete."""
        there: dict[Key, ClusterObject] = {}
        gone: list[ObjectRef] = []
        for change in changes:
            if change.upsert is None:
                gone += self._delete(change.key)
                there.pop(change.key, None)
            else:
                held = self._merged(change)
                if held is not None:
                    there[change.key] = held
                    self._note(held)
                    self._world.add([held])
        return list(there.values()), gone

    def _delete(self, key: Key) -> list[ObjectRef]:
        uid = self._uids.pop(key, None)
        if uid is None or (key[0] in ("Pod", "PodGroup") and self._world.find(uid) is None):
            return []
        self._world.remove(uid)
        kind = Kind.Value("KIND_" + _upper(key[0]))
        return [ObjectRef(kind=kind, uid=uid)]

    def _merged(self, change: Change) -> ClusterObject | None:
        """The object with the fields that the scheduler wrote; None if the change has no effect."""
        assert change.upsert is not None
        new = ClusterObject()
        new.CopyFrom(change.upsert)
        if not (new.HasField("pod") or new.HasField("pod_group")):
            return new
        known = self._world.find(self._uids.get(change.key, ""))
        if known is None:
            # A pod without a node cannot end.
            ended = new.HasField("pod") and new.pod.phase in _ENDED
            return new if change.has_status and not ended else None
        if isinstance(known, Pod):
            return new if _keep_pod(new.pod, known, has_status=change.has_status) else None
        if not change.has_status:
            new.pod_group.status.CopyFrom(known.status)
        return new


def _keep_pod(new: Pod, known: Pod, *, has_status: bool) -> bool:
    """Copies the fields that the scheduler wrote; returns whether the change has an effect."""
    new.node_name = known.node_name
    new.nominated_node_name = known.nominated_node_name
    del new.conditions[:]
    new.conditions.extend(known.conditions)
    if not has_status:
        new.phase = known.phase
    return bool(new.node_name) or new.phase not in _ENDED


def _upper(kind: str) -> str:
    """``PodGroup`` as ``POD_GROUP``."""
    return "".join(f"_{c}" if c.isupper() else c for c in kind).lstrip("_").upper()


def invalid_value(source: str, where: str, value: Any, allowed: str) -> InputProblem:
    if value is None:
        return InputProblem(f"{source}: {where} is missing; allowed: {allowed}")
    shown = repr(value)
    shown = shown if len(shown) <= 40 else f"{shown[:40]}…"
    return InputProblem(f"{source}: {where}: invalid value {shown}; allowed: {allowed}")
