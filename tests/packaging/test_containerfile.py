"""The Containerfile: what it copies is there, and what it makes is small and runs without root."""

from __future__ import annotations

import json
import re

from tests.architecture.tree import REPOSITORY
from tests.packaging.containerfile import KNOWN, ignored, instructions, stages

BUILD, FINAL = stages()
ROOTS = {"proto", "server", "adapters", "clients", "bench"}


def test_it_uses_known_instructions_and_one_pinned_base() -> None:
    assert {one.word for one in instructions()} <= KNOWN
    argument = instructions()[0]
    assert argument.word == "ARG"
    assert re.fullmatch(r"BASE=\S+:\d+\.\d+\.\d+-slim-\w+", argument.rest)
    assert {BUILD.base, FINAL.base} == {"${BASE}"}


def test_what_it_copies_is_there() -> None:
    sources = [source for one in instructions() for source in one.sources]
    assert [source for source in sources if not (REPOSITORY / source).exists()] == []
    assert set(sources) >= ROOTS


def test_nothing_compiled_elsewhere_is_copied() -> None:
    assert {"**/*.so", "**/__pycache__", ".venv"} <= set(ignored())


def test_a_compiler_is_in_the_build_stage_only() -> None:
    assert any("gcc" in one.rest.split() for one in BUILD.of("RUN"))
    assert not any("apt-get" in one.rest for one in FINAL.of("RUN"))
    assert [one.rest for one in FINAL.of("COPY")] == ["--from=build /opt/pumice /opt/pumice"]


def test_the_image_runs_pumice_and_not_as_root() -> None:
    assert json.loads(FINAL.last("ENTRYPOINT")) == ["pumice"]
    # A number, so that a cluster can see that it is not root.
    assert int(FINAL.last("USER")) > 0
