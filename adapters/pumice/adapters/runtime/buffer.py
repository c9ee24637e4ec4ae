"""The resume buffer: the last encoded version of every object. A snapshot needs no new list."""

from collections.abc import Iterable
from dataclasses import dataclass

from pumice.adapters.runtime.digests import hash64
from pumice.adapters.runtime.encoding import object_body
from pumice.adapters.runtime.objects import Identity, KindNumber, ObjectKey, identity, snapshot_rank
from pumice.v1.configuration_pb2 import Configuration
from pumice.v1.delta_pb2 import PluginData
from pumice.v1.object_pb2 import KIND_POD_GROUP, ClusterObject


@dataclass(frozen=True, slots=True)
class HeldObject:
    """The last version of one object that the world reported."""

    identity: Identity
    # Unique among all objects and versions of this process.
    revision: int
    body: bytes
    # hash64 of uid and revision.
    digest: int

    @property
    def key(self) -> ObjectKey:
        return (self.identity.kind, self.identity.uid)

    def message(self) -> ClusterObject:
        return ClusterObject.FromString(self.body)


@dataclass(frozen=True, slots=True)
class HeldGroup:
    """The part of a PodGroup with which the decisions of its gang are compared."""

    uid: str
    spec_hash: str


class ResumeBuffer:
    """Every object of the world, encoded and ready to be sent again."""

    def __init__(self) -> None:
        self.configuration: Configuration | None = None
        # Data for plugins, by plugin and name.
        self.data: dict[tuple[str, str], PluginData] = {}
        self._objects: dict[ObjectKey, HeldObject] = {}
        self._groups: dict[str, HeldGroup] = {}
        self._revision = 0

    def keep(self, cluster_object: ClusterObject, *, afresh: bool = False) -> HeldObject | None:
        """Stores a version. Returns None if it equals the stored one, unless ``afresh``.

        Raises ValueError for a message without an object.
        """
        who = identity(cluster_object)
        key = (who.kind, who.uid)
        body = object_body(cluster_object)
        before = self._objects.get(key)
        if before is not None and before.body == body and not afresh:
            return None
        self._revision += 1
        held = HeldObject(who, self._revision, body, hash64(who.uid, self._revision))
        self._objects[key] = held
        if who.kind == KIND_POD_GROUP:
            group = cluster_object.pod_group
            self._groups[f"{group.namespace}/{group.name}"] = HeldGroup(group.uid, group.spec_hash)
        return held

    def keep_data(self, data: PluginData) -> bool:
        """Stores data for a plugin; returns whether it changed."""
        key = (data.plugin, data.name)
        before = self.data.get(key)
        if data.numbers or data.texts:
            self.data[key] = data
            return before != data
        return self.data.pop(key, None) is not None

    def drop(self, kind: KindNumber, uid: str) -> HeldObject | None:
        """Removes an object and returns it."""
        held = self._objects.pop((kind, uid), None)
        if held is None:
            return None
        name = f"{held.identity.namespace}/{held.identity.name}"
        group = self._groups.get(name)
        # A new PodGroup with the same name may be reported before the deletion of the old one.
        if kind == KIND_POD_GROUP and group is not None and group.uid == uid:
            del self._groups[name]
        return held

    def get(self, kind: KindNumber, uid: str) -> HeldObject | None:
        return self._objects.get((kind, uid))

    def group(self, job: str) -> HeldGroup | None:
        return self._groups.get(job)

    def in_snapshot_order(self, kinds: Iterable[KindNumber] = ()) -> list[HeldObject]:
        """The objects of some kinds, or all objects if ``kinds`` is empty."""
        wanted = set(kinds)
        chosen = [
            held for held in self._objects.values() if not wanted or held.identity.kind in wanted
        ]
        chosen.sort(key=lambda held: snapshot_rank(held.identity.kind))
        return chosen

    def __len__(self) -> int:
        return len(self._objects)
