"""What MindCluster's agents say about the NPUs of nodes, in ConfigMaps."""

import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final, TypeVar

import msgspec

from pumice.adapters.kubernetes.configuration import CONFIG_MAPS
from pumice.adapters.kubernetes.object_head import Head
from pumice.adapters.kubernetes.selection import Source

log = logging.getLogger(__name__)

# One ConfigMap is about several nodes, from ClusterD, or about one, from the agents of the node.
_CLUSTER_DEVICES, _CLUSTER_NODES = "cluster-info-device-", "cluster-info-node-cm"
_DEVICES, _NODES = "mindx-dl-deviceinfo-", "mindx-dl-nodeinfo-"
_CHIPS: Final = "huawei.com/Ascend310P"
_LISTS: Final = (_CHIPS, f"{_CHIPS}-Unhealthy", f"{_CHIPS}-Recovering")

T = TypeVar("T")
# What is said about a node, by key.
Texts = dict[str, str]


@dataclass(frozen=True, slots=True)
class NpuSource:
    """Where the ConfigMaps are: those of ClusterD, or those of the agents on each node."""

    from_cluster: bool

    @property
    def namespace(self) -> str:
        """Empty: all."""
        return "mindx-dl" if self.from_cluster else ""

    @property
    def source(self) -> Source:
        consumer = "mx-consumer-volcano" if self.from_cluster else "mx-consumer-cim"
        return Source(CONFIG_MAPS, label_selector=f"{consumer}=true")


class _Devices(msgspec.Struct):
    device_list: Texts = msgspec.field(name="DeviceList", default_factory=dict)


class _DeviceInfo(msgspec.Struct):
    device_info: _Devices = msgspec.field(name="DeviceInfo", default_factory=_Devices)


class _Node(msgspec.Struct):
    status: str = msgspec.field(name="NodeStatus", default="")


class _NodeInfo(msgspec.Struct):
    node_info: _Node = msgspec.field(name="NodeInfo", default_factory=_Node)


class _ConfigMap(msgspec.Struct):
    data: Texts = {}


_DECODER: Final = msgspec.json.Decoder(_ConfigMap)


class NpuInfoStore:
    """Receives the ConfigMaps, and tells what is new about each node."""

    def __init__(self, tell: Callable[[str, Texts], None]) -> None:
        self._tell = tell
        # By namespace and name of a ConfigMap: what it says, by node.
        self._said: dict[tuple[str, str], dict[str, Texts]] = {}
        self._listed: set[tuple[str, str]] = set()

    def begin_list(self) -> None:
        self._listed = set()

    def upsert(self, head: Head, raw: msgspec.Raw) -> None:
        key = (head.metadata.namespace, head.metadata.name)
        self._listed.add(key)
        try:
            said = dict(_read(head.metadata.name, _DECODER.decode(raw).data))
        except msgspec.MsgspecError as error:
            log.error("ConfigMap %s/%s: %s; it stays as it was", *key, error)
            return
        self._put(key, said)

    def end_list(self, version: str) -> None:
        for key in sorted(self._said.keys() - self._listed):
            self._put(key, {})

    def delete(self, head: Head) -> None:
        self._put((head.metadata.namespace, head.metadata.name), {})

    async def wait_for_space(self) -> None:
        """One text for each node waits at most."""

    def _put(self, key: tuple[str, str], said: dict[str, Texts]) -> None:
        before = self._said.pop(key, {})
        if said:
            self._said[key] = said
        for node in sorted(before.keys() | said):
            if before.get(node) != said.get(node):
                known = [texts.get(node, {}) for _, texts in sorted(self._said.items())]
                self._tell(node, {k: v for texts in known for k, v in texts.items()})


def _read(name: str, data: Texts) -> Iterator[tuple[str, Texts]]:
    """What a ConfigMap says, node by node."""
    if name.startswith(_CLUSTER_DEVICES):
        found = _parsed(data.get(name, ""), dict[str, _Devices])
        for node, devices in (found or {}).items():
            yield node.removeprefix(_DEVICES), _lists(devices)
    elif name == _CLUSTER_NODES:
        nodes = _parsed(data.get(name, ""), dict[str, _Node])
        for node, about in (nodes or {}).items():
            yield node.removeprefix(_NODES), {"NodeStatus": about.status}
    elif name.startswith(_DEVICES):
        info = _parsed(data.get("DeviceInfoCfg", ""), _DeviceInfo)
        if info is not None:
            yield name.removeprefix(_DEVICES), _lists(info.device_info)
    elif name.startswith(_NODES):
        one = _parsed(data.get("NodeInfo", ""), _NodeInfo)
        if one is not None:
            yield name.removeprefix(_NODES), {"NodeStatus": one.node_info.status}


def _lists(devices: _Devices) -> Texts:
    return {key: devices.device_list[key] for key in _LISTS if key in devices.device_list}


def _parsed(text: str, kind: type[T]) -> T | None:
    return msgspec.json.decode(text, type=kind) if text else None
