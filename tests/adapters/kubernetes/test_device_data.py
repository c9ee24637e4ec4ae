"""The ConfigMaps that the plugin deviceshare depends on."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from pumice.adapters.kubernetes.device_settings import (
    DeviceConfigError,
    DeviceSettings,
    check_config,
    device_settings,
)
from pumice.adapters.kubernetes.npu_info import NpuSource
from pumice.adapters.kubernetes.options import ConfigMapKey
from pumice.core.plugins.deviceshare.device_config import why_not_devices
from tests.adapters.fake_clock import until
from tests.adapters.kubernetes.conftest import Cluster
from tests.adapters.kubernetes.fake_api import FakeApi
from tests.adapters.kubernetes.trouble import Trouble

Watched = Callable[..., Cluster]
NAME = "device-config.yaml"
NPU = """
    - chipName: 310P3
      commonWord: Ascend310P
      resourceName: huawei.com/Ascend310P
      resourceMemoryName: huawei.com/Ascend310P-memory
      memoryAllocatable: 21527
      memoryCapacity: 24576
      aiCore: 8
      aiCPU: 7
      templates:
      - {name: vir01, memory: 3072, aiCore: 1, aiCPU: 1}
"""


def conf(**arguments: Any) -> str:
    named = {f"deviceshare.{key}": value for key, value in arguments.items()}
    plugins = [{"name": "gang"}, {"name": "deviceshare", "arguments": named}]
    return json.dumps({"actions": "allocate", "tiers": [{"plugins": plugins}]})


def key(namespace: str = "kube-system", name: str = "volcano-vgpu-device-config") -> ConfigMapKey:
    return ConfigMapKey(namespace, name, NAME)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (conf(VGPUEnable=True), key()),
        (conf(AscendHAMiVNPUEnable="true"), key()),
        (conf(VGPUEnable=True, KnownGeometriesCMName="a", KnownGeometriesCMNamespace="b"), key("b", "a")),
        (conf(GPUSharingEnable=True), None),
        (conf(VGPUEnable=False), None),
        ("", None),
        ("tiers: [{plugins: 7}, 5]", None),
        ("tiers: {", None),
    ],
)  # fmt: skip
def test_a_configuration_says_what_is_needed(text: str, expected: ConfigMapKey | None) -> None:
    assert device_settings(text) == DeviceSettings(expected)


@pytest.mark.parametrize(
    ("common", "from_cluster"),
    [(None, True), ({}, True), ({"useClusterInfoManager": "false"}, False)],
)
def test_a_configuration_says_where_npus_are_described(
    common: dict[str, str] | None, *, from_cluster: bool
) -> None:
    data = json.loads(conf(AscendMindClusterVNPUEnable=True))
    if common is not None:
        data["configurations"] = [{"name": "init-params", "arguments": common}]
    assert device_settings(json.dumps(data)) == DeviceSettings(None, NpuSource(from_cluster))


@pytest.mark.parametrize(
    "text", [f"vnpus:\n  configs:{NPU}\n  hamiVnpuCore: true", f"vnpus:{NPU}", "nvidia: {}", ""]
)
def test_both_forms_of_the_device_configuration_can_be_used(text: str) -> None:
    check_config(text)
    assert why_not_devices(yaml.safe_load(text) or {}) is None


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("vnpus: {configs: [{commonWord: 7}]}", r"vnpus\.configs"),
        ("nvidia: {gpuMemoryFactor: many}", r"gpuMemoryFactor"),
        ("nvidia: {knownMigGeometries: [{models: A100}]}", "models"),
        ("- a", "object"),
        ("a: {", "line 1"),
        ("[" * 500, "."),
    ],
)
def test_a_device_configuration_that_cannot_be_used_says_where(text: str, problem: str) -> None:
    with pytest.raises(DeviceConfigError, match=problem):
        check_config(text)


def put(api: FakeApi, text: str, namespace: str = "kube-system") -> None:
    metadata = {"namespace": namespace, "name": "volcano-vgpu-device-config"}
    api.put("configmaps", {"metadata": metadata, "data": {NAME: text}})


def devices(cluster: Cluster) -> list[str]:
    """The device configurations that were published, one after the other."""
    return [configuration.device_config for configuration in cluster.configurations]


async def test_the_device_configuration_is_known_before_the_cluster_counts_as_read(
    fake_api: FakeApi, watched: Watched, tmp_path: Path
) -> None:
    put(fake_api, "nvidia: {resourceCountName: example.com/gpu}")
    file = tmp_path / "conf"
    file.write_text(conf(VGPUEnable=True))
    cluster = watched(scheduler_conf=file)
    await until(lambda: cluster.synced)
    assert devices(cluster) == ["nvidia: {resourceCountName: example.com/gpu}"]


async def test_the_device_configuration_is_followed(
    fake_api: FakeApi, watched: Watched, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = tmp_path / "conf"
    file.write_text(conf(VGPUEnable=True))
    cluster = watched(scheduler_conf=file)
    await until(lambda: cluster.synced)
    assert devices(cluster) == [""]
    put(fake_api, "nvidia: {gpuMemoryFactor: 2}")
    await until(lambda: len(devices(cluster)) == 2)
    with caplog.at_level(logging.ERROR):
        put(fake_api, "nvidia: [")
        put(fake_api, "nvidia: {gpuMemoryFactor: 3}")
        await until(lambda: len(devices(cluster)) == 3)
    assert "the device configuration stays unchanged" in caplog.text
    fake_api.remove("configmaps", "kube-system", "volcano-vgpu-device-config")
    await until(lambda: len(devices(cluster)) == 4)
    factors = ["nvidia: {gpuMemoryFactor: 2}", "nvidia: {gpuMemoryFactor: 3}"]
    assert devices(cluster) == ["", *factors, ""]


async def test_another_scheduler_configuration_may_name_another_config_map(
    fake_api: FakeApi, watched: Watched, tmp_path: Path
) -> None:
    put(fake_api, "nvidia: {gpuMemoryFactor: 2}")
    put(fake_api, "nvidia: {gpuMemoryFactor: 5}", namespace="other")
    file = tmp_path / "conf"
    file.write_text(conf())
    cluster = watched(scheduler_conf=file)
    await until(lambda: cluster.synced)
    assert devices(cluster) == [""]
    file.write_text(conf(VGPUEnable=True))
    await until(lambda: len(devices(cluster)) == 2)
    file.write_text(conf(VGPUEnable=True, KnownGeometriesCMNamespace="other"))
    await until(lambda: len(devices(cluster)) == 3)
    factors = ["nvidia: {gpuMemoryFactor: 2}", "nvidia: {gpuMemoryFactor: 5}"]
    assert devices(cluster) == ["", *factors]
    # The same ConfigMap, another scheduler configuration.
    file.write_text(conf(VGPUEnable=True, KnownGeometriesCMNamespace="other", ScheduleWeight=7))
    await until(lambda: len(devices(cluster)) == 4)
    assert devices(cluster)[-1] == factors[-1]
    assert "ScheduleWeight" in cluster.configurations[-1].scheduler_conf


async def test_a_device_configuration_that_may_not_be_read_does_not_hold_the_start_up(
    fake_api: FakeApi,
    watched: Watched,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("pumice.adapters.kubernetes.device_data._LONGEST_SECONDS", 0.3)
    refused = Trouble("GET", "/configmaps", times=10**6, status=403, message="no right")
    fake_api.trouble.append(refused)
    put(fake_api, "nvidia: {gpuMemoryFactor: 2}")
    file = tmp_path / "conf"
    file.write_text(conf(VGPUEnable=True))
    cluster = watched(scheduler_conf=file)
    await until(lambda: cluster.synced)
    assert "data about devices cannot be read" in caplog.text
    fake_api.trouble.remove(refused)
    await until(lambda: len(devices(cluster)) == 2)


# NPUs of MindCluster.

CHIPS = "huawei.com/Ascend310P"


def put_npus(api: FakeApi, name: str, label: str, namespace: str, **data: Any) -> None:
    metadata = {"namespace": namespace, "name": name, "labels": {label: "true"}}
    texts = {
        key: value if isinstance(value, str) else json.dumps(value) for key, value in data.items()
    }
    api.put("configmaps", {"metadata": metadata, "data": texts})


def npus(cluster: Cluster) -> dict[str, dict[str, str]]:
    """The last word about each node."""
    found = {name: said for plugin, name, said in cluster.data if plugin == "deviceshare"}
    return {name: said for name, said in found.items() if said}


async def test_cluster_d_describes_many_nodes_at_once(
    fake_api: FakeApi, watched: Watched, tmp_path: Path
) -> None:
    def put_devices(**lists: str) -> None:
        nodes = {f"mindx-dl-deviceinfo-{node}": {"DeviceList": {CHIPS: chips, "other": "x"}, "UpdateTime": 1}
                 for node, chips in lists.items()}  # fmt: skip
        name = "cluster-info-device-0"
        put_npus(fake_api, name, "mx-consumer-volcano", "mindx-dl", **{name: nodes})

    put_devices(n1="Ascend310P-0", n2="Ascend310P-0,Ascend310P-1")
    file = tmp_path / "conf"
    file.write_text(conf(AscendMindClusterVNPUEnable=True))
    cluster = watched(scheduler_conf=file)
    await until(lambda: cluster.synced)
    first = {"npu/n1": {CHIPS: "Ascend310P-0"}, "npu/n2": {CHIPS: "Ascend310P-0,Ascend310P-1"}}
    assert npus(cluster) == first
    status = {"mindx-dl-nodeinfo-n1": {"NodeStatus": "PreSeparate", "FaultDevList": []}}
    name = "cluster-info-node-cm"
    put_npus(fake_api, name, "mx-consumer-volcano", "mindx-dl", **{name: status})
    await until(lambda: npus(cluster)["npu/n1"].get("NodeStatus") == "PreSeparate")
    assert npus(cluster)["npu/n1"][CHIPS] == "Ascend310P-0"
    put_devices(n2="Ascend310P-1")
    await until(lambda: npus(cluster)["npu/n1"] == {"NodeStatus": "PreSeparate"})
    fake_api.remove("configmaps", "mindx-dl", name)
    await until(lambda: npus(cluster) == {"npu/n2": {CHIPS: "Ascend310P-1"}})


async def test_agents_describe_each_node(
    fake_api: FakeApi, watched: Watched, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    devices = {"DeviceInfo": {"DeviceList": {CHIPS: "", f"{CHIPS}-Unhealthy": "Ascend310P-3"}}}
    label = "mx-consumer-cim"
    put_npus(fake_api, "mindx-dl-deviceinfo-n1", label, "kube-system", DeviceInfoCfg=devices)
    put_npus(fake_api, "mindx-dl-nodeinfo-n1", label, "mindx-dl", NodeInfo={"NodeInfo": {"NodeStatus": "Healthy"}})  # fmt: skip
    put_npus(fake_api, "mindx-dl-deviceinfo-n2", label, "kube-system", DeviceInfoCfg="{")
    put_npus(fake_api, "mindx-dl-deviceinfo-n3", label, "kube-system", DeviceInfoCfg="")
    data = json.loads(conf(AscendMindClusterVNPUEnable=True))
    arguments = {"useClusterInfoManager": "false"}
    data["configurations"] = [{"name": "init-params", "arguments": arguments}]
    file = tmp_path / "conf"
    file.write_text(json.dumps(data))
    cluster = watched(scheduler_conf=file)
    await until(lambda: cluster.synced)
    assert npus(cluster) == {
        "npu/n1": {CHIPS: "", f"{CHIPS}-Unhealthy": "Ascend310P-3", "NodeStatus": "Healthy"}
    }
    assert "mindx-dl-deviceinfo-n2" in caplog.text
