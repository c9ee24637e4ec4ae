"""Checks the device configuration of vGPUs and NPUs."""

from typing import Any

import msgspec
import yaml


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
    """Raises DeviceConfigError, with the place of the problem, if the core would refuse the text."""
    try:
        data: Any = yaml.safe_load(text)
        # In an older form, vnpus is the list itself.
        if isinstance(data, dict) and isinstance(data.get("vnpus"), list):
            data["vnpus"] = {"configs": data["vnpus"]}
        msgspec.convert({} if data is None else data, _Devices)
    except (yaml.YAMLError, msgspec.ValidationError, RecursionError) as error:
        raise DeviceConfigError(" ".join(str(error).split())) from error
