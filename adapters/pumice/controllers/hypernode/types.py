"""HyperNodes, as far as their controller reads them."""

from typing import Final

import msgspec

from pumice.controllers.runtime.objects import ApiObject, Manifest

# The label with the source that a HyperNode was created from, and its values.
SOURCE: Final = "volcano.sh/network-topology-source"
LABEL_SOURCE: Final = "label"
UFM_SOURCE: Final = "ufm"


class Member(msgspec.Struct):
    """A selector of nodes, or of HyperNodes of a lower tier."""

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


class HyperNode(ApiObject):
    """A HyperNode."""

    spec: HyperNodeSpec = msgspec.field(default_factory=HyperNodeSpec)
    status: HyperNodeStatus = msgspec.field(default_factory=HyperNodeStatus)
