"""A core of thirty lines that places whole gangs wherever they fit: enough to drive an adapter."""

import asyncio
from collections import Counter

from pumice.v1.decision_pb2 import Bind, Decision, Gang
from pumice.v1.node_pb2 import Node
from pumice.v1.object_pb2 import KIND_POD_GROUP
from pumice.v1.pod_pb2 import POD_PHASE_SUCCEEDED, Pod
from tests.adapters.core_model import CoreModel
from tests.adapters.fake_core import FakeCore, ServedStream, serve


class GreedyCore:
    """Takes every stream; forgets everything between two of them, as a restarted core would."""

    def __init__(self, core: FakeCore) -> None:
        self._core = core
        self._session = 0
        self.models: list[CoreModel] = []

    async def run(self) -> None:
        while True:
            served = serve(await self._core.accept())
            self.models.append(served.model)
            try:
                await self._serve(served)
            finally:
                await served.close()

    async def _serve(self, served: ServedStream) -> None:
        assumed: dict[str, str] = {}
        while not served.stream.is_over:
            await asyncio.sleep(0.01)
            for outcome in served.model.outcomes:
                if outcome.code in {2, 3, 5}:
                    assumed.pop(outcome.decision_id.rpartition("#")[0], None)
            served.model.outcomes.clear()
            if served.model.snapshots and not served.model.in_snapshot:
                self._decide(served, assumed)

    def _decide(self, served: ServedStream, assumed: dict[str, str]) -> None:
        self._session += 1
        objects = [held for _, held in served.model.objects.values()]
        nodes = [held.node for held in objects if held.HasField("node")]
        pods = [held.pod for held in objects if held.HasField("pod")]
        room = {node.name: Counter(dict(node.allocatable)) for node in nodes}
        for pod in pods:
            place = pod.node_name or assumed.get(pod.uid, "")
            if place in room and pod.phase != POD_PHASE_SUCCEEDED:
                room[place].subtract(dict(pod.spec.requests))
        for held in objects:
            if held.HasField("pod_group"):
                name = held.pod_group.name
                mine = [pod for pod in pods if pod.group_name == name and not pod.terminating]
                waiting = [p for p in mine if not p.node_name and p.uid not in assumed]
                if len(mine) >= held.pod_group.min_member:
                    self._place(served, assumed, held.pod_group.uid, waiting, nodes, room)

    def _place(
        self,
        served: ServedStream,
        assumed: dict[str, str],
        group_uid: str,
        waiting: list[Pod],
        nodes: list[Node],
        room: dict[str, Counter[str]],
    ) -> None:
        trial = {name: Counter(left) for name, left in room.items()}
        binds: list[Decision] = []
        group = served.model.objects[KIND_POD_GROUP, group_uid][1].pod_group
        for pod in waiting:
            need = dict(pod.spec.requests)
            for node in nodes:
                if all(trial[node.name][what] >= amount for what, amount in need.items()):
                    trial[node.name].subtract(need)
                    order = Bind(
                        namespace=pod.namespace, name=pod.name, uid=pod.uid, node=node.name
                    )
                    number = f"{pod.uid}#{self._session}"
                    binds.append(Decision(id=number, gang_id=f"g{self._session}", bind=order))
                    break
        if not binds or len(binds) < len(waiting):
            return
        gang = Gang(
            id=f"g{self._session}/{group.name}",
            job=f"{group.namespace}/{group.name}",
            pod_group_uid=group.uid,
            spec_hash=group.spec_hash,
            size=len(binds),
        )
        for decision in binds:
            decision.gang_id = gang.id
            assumed[decision.bind.uid] = decision.bind.node
        room.update(trial)
        # In two messages, as a long gang would come.
        half = len(binds) // 2
        for part in (binds[:half], binds[half:]):
            if part:
                served.stream.decide(part, [gang], based_on_seq=served.model.applied_seq)
