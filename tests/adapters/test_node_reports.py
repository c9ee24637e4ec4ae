"""Which updates of nodes can wait for others."""

from collections.abc import Callable

import pytest

from pumice.adapters.runtime.buffer import ResumeBuffer
from pumice.adapters.runtime.event_handler import is_report
from pumice.v1.node_pb2 import Node, NodeImage
from pumice.v1.object_pb2 import ClusterObject


def node(annotation: str = "1", **more: object) -> Node:
    found = Node(uid="u", name="n", annotations={"volcano.sh/report": annotation})
    found.allocatable["cpu"] = 4000
    for name, value in more.items():
        setattr(found, name, value)
    return found


def with_images() -> Node:
    found = node()
    found.images.append(NodeImage(names=["app"], size_bytes=1))
    return found


def with_less() -> Node:
    found = node()
    found.allocatable["cpu"] = 3000
    return found


@pytest.mark.parametrize(
    ("later", "is_one"),
    [
        (lambda: node("2"), True),
        (with_images, True),
        (with_less, False),
        (lambda: node("2", unschedulable=True), False),
    ],
)
def test_only_other_annotations_and_images_make_a_report(
    later: Callable[[], Node], is_one: bool
) -> None:
    before = ResumeBuffer().keep(ClusterObject(node=node()))
    assert before is not None
    new = later()
    copy = Node.FromString(new.SerializeToString())
    assert is_report(before, new) is is_one
    assert new == copy
