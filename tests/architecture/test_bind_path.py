"""The path of a bind in docs/architecture.md names every module of the engine that takes part."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from types import FrameType

import pytest

from pumice.core import engine as engine_module
from pumice.core import kernel
from pumice.core.actions import allocate
from pumice.core.deltas import Upserted
from tests.core.builders import NOW_NS, job, node, queue
from tests.core.evicting import engine

CORE = Path(engine_module.__file__).parent
PAGE = Path(__file__).parents[2] / "docs" / "architecture.md"
PLUGINS = (("priority", "gang", "conformance"), ("drf", "predicates", "proportion", "nodeorder"))
# Plugins and values take part as well; they are not steps.
NOT_STEPS = ("plugins/", "model/", "configuration/")


def documented() -> set[str]:
    section = PAGE.read_text(encoding="utf-8").split("### The path of a bind")[1]
    table = section.split("The first task of a class")[0]
    return set(re.findall(r"`([a-z_/]+\.py)`", table))


def modules_of_visits() -> list[set[str]]:
    """The modules that take part in each visit of allocate to a gang."""
    cluster = engine(
        "enqueue, allocate, backfill", PLUGINS, *[node(f"n{i}") for i in range(3)], queue()
    )
    gangs = (*job("a", 3, minimum=3), *job("b", 3, minimum=3))
    cluster.apply([Upserted(item) for item in gangs])
    visits: list[set[str]] = []
    visit = allocate._AllocateRun._visit.__code__
    inside: list[FrameType] = []

    def follow(frame: FrameType, event: str, _: object) -> None:
        if event == "call" and frame.f_code is visit:
            inside.append(frame)
            visits.append(set())
        if inside:
            visits[-1].add(frame.f_code.co_filename)
        if event == "return" and inside and frame is inside[0]:
            inside.clear()

    before = sys.getprofile()
    sys.setprofile(follow)
    try:
        result = cluster.schedule(NOW_NS)
    finally:
        sys.setprofile(before)
    assert len(result.decisions) == 6
    return visits


@pytest.mark.skipif(kernel.rows is None, reason="the page describes the path with the kernel")
def test_the_page_names_the_modules_that_a_gang_of_a_known_class_passes_through() -> None:
    _, second = modules_of_visits()
    inside = {Path(name) for name in second if name.startswith(str(CORE))}
    steps = {path.relative_to(CORE).as_posix() for path in inside}
    steps = {name for name in steps if not name.startswith(NOT_STEPS)}
    assert steps == documented()
