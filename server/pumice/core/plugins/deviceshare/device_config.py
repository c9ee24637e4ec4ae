"""The device configuration: names of resources, MIG geometries, and types of Ascend NPUs.

The adapter reads it from a ConfigMap. Without one, the built-in configuration is used, as in Volcano.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import lru_cache
from typing import Any


@dataclass(frozen=True, slots=True)
class ResourceNames:
    """The resources by which containers request shared devices; an empty name is not used."""

    count: str
    memory: str
    cores: str
    percentage: str = ""


@dataclass(frozen=True, slots=True)
class Geometry:
    """A MIG geometry: memory and count of each kind of instance."""

    group: str
    instances: tuple[tuple[int, int], ...]

    def memory_at(self, position: int) -> int | None:
        """The memory of an instance by its position in the group; None: there is none."""
        for memory, count in self.instances:
            if position < count:
                return memory
            position -= count
        return None


@dataclass(frozen=True, slots=True)
class NpuType:
    """One type of Ascend NPU and the parts into which it can be divided."""

    common_word: str
    names: ResourceNames
    memory_allocatable: int
    memory_capacity: int
    # Memory and name of each template, the smallest first.
    templates: tuple[tuple[int, str], ...]

    def part_for(self, memory: int) -> tuple[int, str] | None:
        """Memory and template of the smallest part with enough memory; None: no part has enough.

        The whole card has no template.
        """
        for size, name in self.templates:
            if memory <= size:
                return size, name
        return (self.memory_allocatable, "") if memory <= self.memory_capacity else None


@dataclass(frozen=True, slots=True)
class DeviceConfig:
    """The configuration of the device plugins of a cluster."""

    vgpu: ResourceNames
    # The unit of memory requests: the memory of a MIG instance is divided by it.
    memory_factor: int
    # By models; the type of a card contains one of them.
    geometries: tuple[tuple[tuple[str, ...], tuple[Geometry, ...]], ...]
    npus: tuple[NpuType, ...]
    # Whether pods may share the cores of an NPU; nodes can override it.
    shares_npu_cores: bool

    def geometries_of(self, type_: str) -> tuple[Geometry, ...]:
        """The geometries of the first entry that matches the type of a card."""
        for models, geometries in self.geometries:
            if any(model in type_ for model in models):
                return geometries
        return ()


_VGPU = ResourceNames("volcano.sh/vgpu-number", "volcano.sh/vgpu-memory", "volcano.sh/vgpu-cores")
_ASCEND_310P = {
    "commonWord": "Ascend310P",
    "resourceName": "huawei.com/Ascend310P",
    "resourceMemoryName": "huawei.com/Ascend310P-memory",
    "memoryAllocatable": 21527,
    "memoryCapacity": 24576,
    "templates": [
        {"name": "vir01", "memory": 3072},
        {"name": "vir02", "memory": 6144},
        {"name": "vir04", "memory": 12288},
    ],
}


@lru_cache(maxsize=8)
def device_config(text: str) -> DeviceConfig:
    """Parses a valid configuration; an empty text is the built-in configuration."""
    return _config(json.loads(text)) if text else DEFAULT_DEVICES


def why_not_devices(data: object) -> str | None:
    """Why data is not a valid device configuration; None: it is."""
    try:
        _config(data)
    except (ArithmeticError, AttributeError, TypeError, ValueError) as error:
        return f"is invalid: {error}"
    except LookupError as error:
        return f"lacks the key {error}"
    return None


def _config(data: Any) -> DeviceConfig:
    nvidia, npus = data.get("nvidia") or {}, data.get("vnpus") or {}
    if isinstance(npus, list):
        # The older form is the list itself.
        npus = {"configs": npus}
    return DeviceConfig(
        ResourceNames(
            nvidia.get("resourceCountName") or _VGPU.count,
            nvidia.get("resourceMemoryName") or _VGPU.memory,
            nvidia.get("resourceCoreName") or _VGPU.cores,
            nvidia.get("resourceMemoryPercentageName") or "",
        ),
        max(int(nvidia.get("gpuMemoryFactor") or 1), 1),
        tuple(
            (tuple(known["models"]), tuple(map(_geometry, known["allowedGeometries"])))
            for known in nvidia.get("knownMigGeometries") or ()
        ),
        tuple(map(_npu, npus.get("configs") or ())),
        bool(npus.get("hamiVnpuCore")),
    )


def _geometry(data: dict[str, Any]) -> Geometry:
    instances = ((int(part["memory"]), int(part["count"])) for part in data["geometries"])
    return Geometry(str(data["group"]), tuple(instances))


def _npu(data: dict[str, Any]) -> NpuType:
    resource = str(data["resourceName"])
    templates = ((int(part["memory"]), str(part["name"])) for part in data.get("templates") or ())
    return NpuType(
        str(data["commonWord"]),
        ResourceNames(resource, str(data["resourceMemoryName"]), f"{resource}-core"),
        int(data["memoryAllocatable"]),
        int(data["memoryCapacity"]),
        tuple(sorted(templates)),
    )


DEFAULT_DEVICES = _config({"vnpus": {"configs": [_ASCEND_310P]}})
