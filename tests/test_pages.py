"""Every plugin and action has a page; what follows from the code is as the code has it."""

import re
from typing import ClassVar

import pytest

from pumice.core.configuration import PluginOptions
from pumice.core.session.session import Session
from pumice.testing import cluster
from tests import plugin_reference
from tests.pages import FOLDER, ROOT, declared, generated, index_of, page_of


class ReaderPlugin:
    """Reads in a session, and registers nothing."""

    name: ClassVar[str] = "reader"
    api: ClassVar[int] = 1

    def __init__(self, options: PluginOptions) -> None:
        pass


PAGES = [(kind, name) for kind in ("plugins", "actions") for name in declared(kind)]


@pytest.mark.parametrize(("kind", "name"), PAGES)
def test_the_arguments_on_a_page_are_those_of_the_code(kind: str, name: str) -> None:
    text = page_of(kind, name).read_text(encoding="utf-8")
    assert generated(kind, name) in text, "run python -m tests.pages"


@pytest.mark.parametrize(("kind", "name"), PAGES)
def test_a_page_says_what_every_argument_does(kind: str, name: str) -> None:
    rows = [line for line in generated(kind, name).splitlines() if line.startswith("| `")]
    assert all(row.split("|")[-2].strip() for row in rows)


@pytest.mark.parametrize(("kind", "name"), PAGES)
def test_a_page_has_an_example_with_a_table_or_a_picture(kind: str, name: str) -> None:
    text = page_of(kind, name).read_text(encoding="utf-8")
    _, found, example = text.partition("\n## Example")
    assert found, "the page needs a section Example"
    assert "\n|" in example or "```text" in example, "the example shows what it does"


@pytest.mark.parametrize("kind", ["plugins", "actions"])
def test_the_lists_are_complete_and_every_page_is_in_the_navigation(kind: str) -> None:
    assert (FOLDER / kind / "index.md").read_text(encoding="utf-8") == index_of(kind)
    navigation = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    for name in ("index", *declared(kind)):
        assert f"reference/{kind}/{name}.md" in navigation


def test_the_reference_of_plugins_is_that_of_the_code() -> None:
    text = plugin_reference.PAGE.read_text(encoding="utf-8")
    assert text == plugin_reference.page(), "run python -m tests.plugin_reference"


def test_gpu_requests_are_as_the_reference_says() -> None:
    asked: list[tuple[float, tuple[tuple[str, int], ...]]] = []

    class Reader(ReaderPlugin):
        def open(self, session: Session) -> None:
            for task in session.jobs["default/train"].index:
                asked.append((task.request.get("nvidia.com/gpu"), task.class_.amounts))

    conf = "actions: allocate\ntiers:\n- plugins:\n  - name: reader\n"
    gpus = cluster(conf, plugins=[Reader]).node("n1", nvidia_com__gpu="4")
    assert gpus.job("train", 1, nvidia_com__gpu="2").cycle().binds
    ((amount, amounts),) = asked
    assert amount == 2000
    assert ("nvidia.com/gpu", 2000) in amounts


def test_the_names_in_the_section_about_domains_exist() -> None:
    known = {"session", "topology", "tree", *declared("actions")}

    class Reader(ReaderPlugin):
        def open(self, session: Session) -> None:
            for part in (session.topology, session.topology.tree, session.hooks):
                known.update(dir(part))

    cluster("actions: allocate\ntiers:\n- plugins:\n  - name: reader\n", plugins=[Reader]).cycle()
    text = (ROOT / "docs/how-to/write-a-plugin.md").read_text(encoding="utf-8")
    section = text.partition("\n## Domains\n")[2].partition("\n## ")[0]
    named = re.findall(r"`([A-Za-z_.]+)(?:\([^`]*\))?`", section)
    assert named
    assert not {part for name in named for part in name.split(".")} - known
