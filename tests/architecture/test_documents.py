"""Pages name files, modules and targets that exist."""

from __future__ import annotations

import re
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import click
import pytest

from pumice.cli.main import pumice
from tests.architecture.tree import REPOSITORY, shown

PAGES = sorted(
    page
    for page in [*REPOSITORY.glob("*.md"), *(REPOSITORY / "docs").rglob("*.md")]
    if "node_modules" not in page.parts
)
TOP = {path.name for path in REPOSITORY.iterdir() if path.is_dir()} - {"site", "build", "dist"}
CODE = re.compile(r"`([^`\s]+)`")
LINK = re.compile(r"\]\(([^)\s#]+)(?:#[^)]*)?\)")
MODULE = re.compile(r"pumice(\.[a-z_]\w*)+")


def prose(page: Path) -> str:
    """The page without its blocks of code."""
    return re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.S | re.M)


def files() -> Iterator[str]:
    for folder in ("proto", "server", "adapters", "clients", "bench", "tests", "docs", "deploy"):
        for path in (REPOSITORY / folder).rglob("*"):
            yield shown(path)


def is_there(name: str, page: Path) -> bool:
    """Whether a file, a folder or a pattern is in the repository, or beside an example's page."""
    folders = [REPOSITORY, page.parent] if "examples" in page.parts else [REPOSITORY]
    return any(any(folder.glob(name.rstrip("/"))) for folder in folders)


def named_paths(text: str) -> Iterator[str]:
    """Names in code that begin with a folder of the repository."""
    for name in CODE.findall(text):
        path = name.partition(":")[0]
        if re.fullmatch(r"[\w.*/-]+", path) and "/" in path and path.split("/")[0] in TOP:
            yield path


@pytest.mark.parametrize("page", PAGES, ids=shown)
def test_a_page_names_files_that_exist(page: Path) -> None:
    assert [name for name in named_paths(prose(page)) if not is_there(name, page)] == []


@pytest.mark.parametrize("page", PAGES, ids=shown)
def test_a_page_names_python_files_that_exist(page: Path) -> None:
    """A file may be named by the end of its path."""
    ends = {name for name in CODE.findall(prose(page)) if re.fullmatch(r"[\w/]+\.(py|proto)", name)}
    known = [f"/{name}" for name in files()]
    assert [end for end in sorted(ends) if not any(one.endswith(f"/{end}") for one in known)] == []


@pytest.mark.parametrize("page", PAGES, ids=shown)
def test_a_page_names_modules_that_exist(page: Path) -> None:
    names = {name for name in CODE.findall(prose(page)) if MODULE.fullmatch(name)}
    assert [name for name in sorted(names) if not is_module(name)] == []


def is_module(name: str) -> bool:
    """A module, or a name in one."""
    for depth in (0, 1, 2):
        parts = name.split(".")
        module = ".".join(parts[: len(parts) - depth])
        try:
            found = find_spec(module)
        except ModuleNotFoundError:
            continue
        if found is not None:
            return True
    return False


@pytest.mark.parametrize("page", PAGES, ids=shown)
def test_a_page_links_to_files_that_exist(page: Path) -> None:
    links = [link for link in LINK.findall(prose(page)) if "://" not in link]
    assert [link for link in links if not (page.parent / link).exists()] == []


@pytest.mark.parametrize("page", PAGES, ids=shown)
def test_a_page_names_targets_of_make_that_exist(page: Path) -> None:
    makefile = (REPOSITORY / "Makefile").read_text(encoding="utf-8")
    targets = set(re.findall(r"^([a-z]+):", makefile, re.MULTILINE))
    named = set(re.findall(r"(?:`|^)make ([a-z]+)", page.read_text(encoding="utf-8"), re.MULTILINE))
    assert named - targets == set()


def test_the_readme_names_every_command() -> None:
    text = (REPOSITORY / "README.md").read_text(encoding="utf-8")
    named = set(re.findall(r"`pumice ([a-z]+)", text))
    assert named == set(pumice.list_commands(click.Context(pumice)))


def test_the_glossary_is_short_and_in_order() -> None:
    text = (REPOSITORY / "docs" / "reference" / "glossary.md").read_text(encoding="utf-8")
    tables = [re.findall(r"^\| ([\w ]+) \| ", part, re.MULTILINE) for part in text.split("## ")]
    terms = [term for table in tables for term in table if term != "term"]
    assert len(terms) == len(set(terms)) <= 30
    for table in tables:
        assert table[1:] == sorted(table[1:])


def test_a_newcomer_finds_answers_to_twenty_questions() -> None:
    text = (REPOSITORY / "CONTRIBUTING.md").read_text(encoding="utf-8")
    table = text.split("## Where is…?")[1].split("\n## ")[0]
    answers = dict(re.findall(r"^\| (.+\?) \| (.+) \|$", table, re.MULTILINE))
    assert len(answers) >= 20
    for question, answer in answers.items():
        names = CODE.findall(answer)
        assert names, question
        assert [name for name in names if not (REPOSITORY / name).is_file()] == [], question


def test_each_step_of_a_pod_names_its_files() -> None:
    page = REPOSITORY / "docs" / "explanation" / "life-of-a-pod.md"
    steps = re.split(r"^\d+\. ", page.read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]
    with_files = [step for step in steps if "→ `" in step]
    assert len(with_files) >= 15
    for step in with_files:
        for name in CODE.findall(step.split("→")[1]):
            assert (REPOSITORY / name).is_file(), name
