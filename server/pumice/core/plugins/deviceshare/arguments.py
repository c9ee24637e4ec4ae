"""The arguments of deviceshare, and the kinds of devices that they switch on."""

from __future__ import annotations

from pumice.core.cache.plugin_data import PluginData
from pumice.core.configuration import (
    Arguments,
    Configuration,
    Limit,
    boolean,
    by_name,
    integer,
    mappings,
    text,
)
from pumice.core.configuration.volcano_names import INIT_PARAMETERS, InitParameters
from pumice.core.plugins.deviceshare.cards import BINPACK, SPREAD, DeviceKind
from pumice.core.plugins.deviceshare.device_config import DeviceConfig
from pumice.core.plugins.deviceshare.gpu_share import GpuShare
from pumice.core.plugins.deviceshare.mindcluster import MindClusterNpu
from pumice.core.plugins.deviceshare.npu import HamiNpu
from pumice.core.plugins.deviceshare.vgpu import VGpu


class LabelArguments(Arguments):
    """Labels of pods."""

    values = by_name(text("", "", "value of this label"))

    def why_not(self) -> str | None:
        return None if self.values else "must be a mapping of labels to values"


class DeviceShareArguments(Arguments):
    """The kinds of devices that are shared, and how."""

    by_memory = boolean("deviceshare.GPUSharingEnable", "shares cards by memory", default=False)
    by_number = boolean("deviceshare.GPUNumberEnable", "gives out whole cards", default=False)
    vgpu = boolean("deviceshare.VGPUEnable", "shares cards by memory and cores", default=False)
    locks = boolean(
        "deviceshare.NodeLockEnable", "locks a node while a pod gets its devices", default=False
    )
    policy = text(
        "deviceshare.SchedulePolicy",
        "",
        "which cards of a node come first",
        Limit(choices=("", BINPACK, SPREAD)),
    )
    weight = integer("deviceshare.ScheduleWeight", 0, "weight of the score; 0: no score")
    exclusive = mappings(
        "deviceshare.GPUExclusiveRules",
        LabelArguments,
        "pods that match one mapping of labels share no card",
    )
    mindcluster = boolean(
        "deviceshare.AscendMindClusterVNPUEnable",
        "shares Ascend 310P NPUs as MindCluster does",
        default=False,
    )
    hami = boolean(
        "deviceshare.AscendHAMiVNPUEnable", "shares Ascend NPUs as HAMi does", default=False
    )
    # The adapter reads the ConfigMap.
    config_name = text(
        "deviceshare.KnownGeometriesCMName",
        "volcano-vgpu-device-config",
        "the ConfigMap with the device configuration",
    )
    config_namespace = text(
        "deviceshare.KnownGeometriesCMNamespace", "kube-system", "its namespace"
    )

    def why_not(self) -> str | None:
        of_gpus = (type(self).by_memory, type(self).by_number, type(self).vgpu)
        on = [argument.name for argument in of_gpus if argument.read(self)]
        return f"only one of {', '.join(on)} can be true" if len(on) > 1 else None

    def kinds(
        self, configuration: Configuration, config: DeviceConfig, data: PluginData
    ) -> list[DeviceKind]:
        """The kinds of devices that are switched on."""
        kinds: list[DeviceKind] = []
        if self.vgpu:
            kinds.append(VGpu(self.policy, [rule.values for rule in self.exclusive], config))
        if self.by_memory or self.by_number:
            kinds.append(GpuShare(by_memory=self.by_memory))
        if self.hami:
            shared = config.shares_npu_cores
            kinds += [HamiNpu(npu, self.policy, shares_cores=shared) for npu in config.npus]
        if self.mindcluster:
            init = InitParameters(configuration.arguments_of(INIT_PARAMETERS))
            kinds.append(MindClusterNpu(data, keeps_free_chips=init.keeps_free_chips))
        return kinds
