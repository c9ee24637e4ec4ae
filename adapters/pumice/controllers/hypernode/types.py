"""HyperNodes, as far as their controller reads them."""

from typing import Final

import msgspec

from pumice.controllers.runtime.objects import Manifest, Watched

SOURCE: Final = "volcano.sh/network-topology-source"
LABEL_SOURCE: Final = "label"
UFM_SOURCE: Final = "ufm"


class Member(msgspec.Struct):
    """One way to choose nodes, or HyperNodes of a lower tier."""

    type: str = ""
    selector: Manifest = msgspec.field(default_factory=dict)


class HyperNodeSpec(msgspec.Struct, rename="camel"):
    """The tier of a HyperNode, and its members."""

    tier: int = 0
    tier_name: str = ""
    members: list[Member] | None = None


class HyperNodeStatus(msgspec.Struct, rename="camel"):
    """The number of nodes below a HyperNode."""

    node_count: int | None = None


class HyperNode(Watched):
    """A HyperNode."""

    spec: HyperNodeSpec = msgspec.field(default_factory=HyperNodeSpec)
    status: HyperNodeStatus = msgspec.field(default_factory=HyperNodeStatus)


class ControllerConfiguration(Watched):
    """The ConfigMap with the settings of discovery."""

    data: dict[str, str] | None = None
