"""Reads data about the NPUs of nodes from ConfigMaps of MindCluster."""

import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final, TypeVar

import msgspec

from pumice.adapters.kubernetes.configuration import CONFIG_MAPS
from pumice.adapters.kubernetes.object_head import Head
from pumice.adapters.kubernetes.selection import Source

log = logging.getLogger(__name__)

# Names of ConfigMaps from ClusterD, about several nodes, and from agents, about one node.
_CLUSTER_DEVICES, _CLUSTER_NODES = "cluster-info-device-", "cluster-info-node-cm"
_DEVICES, _NODES = "mindx-dl-deviceinfo-", "mindx-dl-nodeinfo-"
_CHIPS: Final = "huawei.com/Ascend310P"
_LISTS: Final = (_CHIPS, f"{_CHIPS}-Unhealthy", f"{_CHIPS}-Recovering")

T = TypeVar("T")
# Data about a node, by key.
Texts = dict[str, str]


@dataclass(frozen=True, slots=True)
class NpuSource:
    """The source of the ConfigMaps: ClusterD, or the agents on each node."""

    from_cluster: bool

    @property
    def namespace(self) -> str:
        """The namespace of the ConfigMaps; empty: all namespaces."""
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
    """Receives the ConfigMaps, and publishes changed data of each node."""

    def __init__(self, publish: Callable[[str, Texts], None]) -> None:
        self._publish = publish
        # The data of each ConfigMap, by namespace and name, and by node.
        self._data: dict[tuple[str, str], dict[str, Texts]] = {}
        self._listed: set[tuple[str, str]] = set()

    def begin_list(self) -> None:
        self._listed = set()

    def upsert(self, head: Head, raw: msgspec.Raw) -> None:
        key = (head.metadata.namespace, head.metadata.name)
        self._listed.add(key)
        try:
            data_by_node = dict(_read(head.metadata.name, _DECODER.decode(raw).data))
        except msgspec.MsgspecError as error:
            log.error("ConfigMap %s/%s: %s; the last valid version stays in use", *key, error)
            return
        self._put(key, data_by_node)

    def end_list(self, version: str) -> None:
        for key in sorted(self._data.keys() - self._listed):
            self._put(key, {})

    def delete(self, head: Head) -> None:
        self._put((head.metadata.namespace, head.metadata.name), {})

    async def wait_for_space(self) -> None:
        """Does nothing, because there is at most one event per node."""

    def _put(self, key: tuple[str, str], data_by_node: dict[str, Texts]) -> None:
        before = self._data.pop(key, {})
        if data_by_node:
            self._data[key] = data_by_node
        for node in sorted(before.keys() | data_by_node):
            if before.get(node) != data_by_node.get(node):
                known = [texts.get(node, {}) for _, texts in sorted(self._data.items())]
                self._publish(node, {k: v for texts in known for k, v in texts.items()})


def _read(name: str, data: Texts) -> Iterator[tuple[str, Texts]]:
    """The data of a ConfigMap for each node."""
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
