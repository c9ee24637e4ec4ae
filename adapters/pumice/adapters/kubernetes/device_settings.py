"""The data about devices that a scheduler configuration needs, from its plugin deviceshare.

Checks the device configuration of vGPUs and NPUs.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

import msgspec
import yaml

from pumice.adapters.kubernetes.npu_info import NpuSource
from pumice.adapters.kubernetes.options import ConfigMapKey
from pumice.patterns.golang import parse_bool

PLUGIN: Final = "deviceshare"
DEVICE_CONFIG: Final = "device-config.yaml"
_NAME: Final = "deviceshare.KnownGeometriesCMName"
_NAMESPACE: Final = "deviceshare.KnownGeometriesCMNamespace"
_MIND_CLUSTER: Final = "deviceshare.AscendMindClusterVNPUEnable"
# The device configuration is used if one of these arguments is true.
_CONFIGURED: Final = ("deviceshare.VGPUEnable", "deviceshare.AscendHAMiVNPUEnable")


@dataclass(frozen=True, slots=True)
class DeviceSettings:
    """The ConfigMaps that a configuration needs."""

    # The device configuration; None: it is not used.
    config_map: ConfigMapKey | None = None
    # The data about NPUs of MindCluster; None: it is not used.
    npus: NpuSource | None = None


def device_settings(scheduler_conf: str) -> DeviceSettings:
    """The needs of a configuration. An unreadable configuration needs nothing."""
    try:
        data = yaml.safe_load(scheduler_conf)
    except yaml.YAMLError:
        return DeviceSettings()
    key, npus = None, None
    for arguments in (
        found for tier in _list(data, "tiers") for found in _arguments_of(tier, "plugins", PLUGIN)
    ):
        if any(_is_true(arguments.get(switch)) for switch in _CONFIGURED):
            key = ConfigMapKey(
                _text(arguments, _NAMESPACE) or "kube-system",
                _text(arguments, _NAME) or "volcano-vgpu-device-config",
                DEVICE_CONFIG,
            )
        if _is_true(arguments.get(_MIND_CLUSTER)):
            common = next(_arguments_of(data, "configurations", "init-params"), {})
            npus = NpuSource(_is_true(common.get("useClusterInfoManager", True)))
    return DeviceSettings(key, npus)


def _arguments_of(data: Any, key: str, name: str) -> Iterator[Mapping[str, Any]]:
    """The arguments of all entries of a list with this name."""
    for entry in _list(data, key):
        if isinstance(entry, Mapping) and entry.get("name") == name:
            arguments = entry.get("arguments")
            yield arguments if isinstance(arguments, Mapping) else {}


def _list(data: Any, key: str) -> list[Any]:
    found = data.get(key) if isinstance(data, Mapping) else None
    return found if isinstance(found, list) else []


def _text(arguments: Mapping[str, Any], key: str) -> str:
    value = arguments.get(key)
    return value if isinstance(value, str) else ""


def _is_true(value: Any) -> bool:
    return value is True or (isinstance(value, str) and parse_bool(value) is True)


class _Model(msgspec.Struct, rename="camel"):
    """A part of the file. Only keys that are used are checked."""


class _MigInstances(_Model):
    memory: int
    count: int
    name: str = ""


class _Geometry(_Model):
    group: str
    geometries: list[_MigInstances]


class _KnownGeometries(_Model):
    models: list[str]
    allowed_geometries: list[_Geometry]


class _Nvidia(_Model):
    resource_count_name: str = ""
    resource_memory_name: str = ""
    resource_core_name: str = ""
    resource_memory_percentage_name: str = ""
    gpu_memory_factor: int = 1
    known_mig_geometries: list[_KnownGeometries] = []


class _Template(_Model):
    name: str
    memory: int


class _Npu(_Model):
    common_word: str
    resource_name: str
    resource_memory_name: str
    memory_allocatable: int
    memory_capacity: int
    templates: list[_Template] = []


class _Npus(_Model):
    hami_vnpu_core: bool = False
    configs: list[_Npu] = []


class _Devices(_Model):
    nvidia: _Nvidia | None = None
    vnpus: _Npus | None = None


class DeviceConfigError(ValueError):
    """An invalid device configuration."""


def check_config(text: str) -> None:
    """Raises DeviceConfigError, with the place of the problem, if the text is invalid."""
    try:
        data: Any = yaml.safe_load(text)
        # In an older form, vnpus is the list itself.
        if isinstance(data, dict) and isinstance(data.get("vnpus"), list):
            data["vnpus"] = {"configs": data["vnpus"]}
        msgspec.convert({} if data is None else data, _Devices)
    except (yaml.YAMLError, msgspec.ValidationError, RecursionError) as error:
        raise DeviceConfigError(" ".join(str(error).split())) from error
