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
# How many modules a newcomer has to read for a gang, and for the first gang of a task class.
MOST_MODULES, MOST_MODULES_OF_FIRST = 16, 35


def documented() -> set[str]:
    section = PAGE.read_text(encoding="utf-8").split("### The path of a bind")[1]
    table = section.split("The first task of a class")[0]
    return set(re.findall(r"`([a-z_/]+\.py)`", table))


def modules_of_visits() -> list[set[str]]:
    """The modules of the core that take part in each visit of allocate to a gang, from its turn on."""
    cluster = engine(
        "enqueue, allocate, backfill", PLUGINS, *[node(f"n{i}") for i in range(3)], queue()
    )
    gangs = (*job("a", 3, minimum=3), *job("b", 3, minimum=3))
    cluster.apply([Upserted(item) for item in gangs])
    visits: list[set[str]] = []
    turn, visit = allocate._AllocateRun._next.__code__, allocate._AllocateRun._visit.__code__
    inside: list[FrameType] = []

    def follow(frame: FrameType, event: str, _: object) -> None:
        if event == "call" and frame.f_code is turn:
            inside.append(frame)
            visits.append(set())
        if inside and frame.f_code.co_filename.startswith(str(CORE)):
            path = Path(frame.f_code.co_filename)
            visits[-1].add(path.relative_to(CORE).as_posix())
        if event == "return" and frame.f_code is visit:
            inside.clear()

    before = sys.getprofile()
    sys.setprofile(follow)
    try:
        result = cluster.schedule(NOW_NS)
    finally:
        sys.setprofile(before)
    assert len(result.decisions) == 6
    # The last turn finds no job.
    return visits[:2]


@pytest.mark.skipif(kernel.rows is None, reason="the page describes the path with the kernel")
def test_the_page_names_the_modules_that_a_gang_of_a_known_class_passes_through() -> None:
    _, second = modules_of_visits()
    assert {name for name in second if not name.startswith(NOT_STEPS)} == documented()


@pytest.mark.skipif(kernel.rows is None, reason="without the kernel the path is another one")
def test_a_gang_passes_through_few_modules() -> None:
    first, second = modules_of_visits()
    assert len(first) <= MOST_MODULES_OF_FIRST
    assert len(second) <= MOST_MODULES
