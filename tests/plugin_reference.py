"""Writes the reference of what a plugin may touch, from the code.

``python -m tests.plugin_reference`` writes ``docs/reference/plugin-api.md``: the attributes and methods
of the values that hooks get, with their types, and with the comments and docstrings of the code.
"""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from pumice.core.cache.entries import NodeEntry
from pumice.core.cache.jobs import Job
from pumice.core.cache.nodes import NodeTable
from pumice.core.cache.plugin_data import PluginData
from pumice.core.cache.subjobs import SubJob
from pumice.core.cache.task_index import TaskIndex
from pumice.core.cache.tasks import Task, TaskClass
from pumice.core.configuration import Argument, Arguments, Limit, PluginOptions
from pumice.core.engine import Engine
from pumice.core.model.fit import Refusal
from pumice.core.model.group import PodGroup, Queue
from pumice.core.model.node import Node
from pumice.core.model.pod import ContainerResources, Pod, PodSpec
from pumice.core.model.reasons import NodeCount, Reason
from pumice.core.model.resources import Resources
from pumice.core.session.feasibility.rows import NodeRows
from pumice.core.session.hooks import EventHandler, Hooks
from pumice.core.session.session import Session
from tests.core import builders
from tests.plugin_meanings import MEANINGS

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs/reference/plugin-api.md"
# Classes by section, with the members that plugins use; None: all that are public.
SECTIONS: dict[str, dict[type, frozenset[str] | None]] = {
    "The session": {
        Session: frozenset(
            (
                *("number", "now_ns", "cache", "table", "configuration", "jobs", "queues", "total"),
                *(
                    "hooks",
                    "topology",
                    "id",
                    "explain",
                    "record_event",
                    "annotate",
                    "node_states",
                    "data",
                ),
                *("last_time", "keep_time", "queue_of", "job_of", "sub_job_of", "runs_action"),
                *("count",),
            )
        ),
        Hooks: None,
        EventHandler: None,
    },
    "Jobs and tasks": {
        Job: frozenset(
            (
                *("id", "group", "queue", "priority", "creation_time_ns", "min_available"),
                *("role_minima", "min_resources", "phase", "index", "sub_jobs", "is_pending"),
                *("namespace", "name"),
            )
        ),
        SubJob: None,
        Task: frozenset(
            (
                *("uid", "name", "pod", "class_", "request", "best_effort", "job_id", "role"),
                *("priority", "gated", "status", "node_name", "key", "annotations", "pod_index"),
            )
        ),
        TaskIndex: frozenset(
            (
                *("pending", "with_status", "in_order", "count", "allocated_count"),
                *("waiting_count", "valid_count"),
            )
        ),
        TaskClass: frozenset(("number", "spec", "amounts", "request", "best_effort", "least")),
        PodGroup: None,
        Queue: None,
    },
    "Pods": {Pod: None, PodSpec: None, ContainerResources: None},
    "Nodes": {
        Node: None,
        NodeEntry: None,
        NodeTable: frozenset(("names", "row_of", "column_of", "labels_version")),
        NodeRows: None,
    },
    "Amounts": {
        Resources: frozenset(
            ("milli_cpu", "memory", "scalars", "items", "get", "is_empty", "clone")
        ),
    },
    "Answers": {Refusal: None, Reason: None, NodeCount: None},
    "Options": {
        PluginOptions: None,
        Arguments: None,
        Argument: None,
        Limit: None,
        PluginData: None,
    },
}
_HEAD = """\
# What a plugin may touch

This page is made from the code by `python -m tests.plugin_reference`. [Write a plugin](../how-to/write-a-plugin.md) explains how
the parts belong together. A plugin reads these values and changes none of them; what is not listed here may change without
notice.

## GPUs and other devices

Requests are amounts by resource name, in `task.request`, `task.class_.amounts` and `pod.spec.requests`. `cpu` is in
millicores, `memory`, storage and huge pages are in bytes, `pods` and attachable volumes are counts, and everything else is in
thousandths: a pod that requests two GPUs has `("nvidia.com/gpu", 2000)`, and `task.request.get("nvidia.com/gpu")` is `2000`.
The amounts of shared GPUs by container are in `pod.spec.containers`, also in thousandths: `ContainerResources.limits` of
`volcano.sh/vgpu-number` or `volcano.sh/gpu-memory`. The cards of a pod are in `task.annotations`. Devices of ResourceClaims
are in `pod.spec.resource_claims`. Amounts of a node are in `rows.idle[rows.column("nvidia.com/gpu")]`, in the same units.
"""


@dataclass(slots=True)
class Member:
    """One attribute or method."""

    name: str
    type: str
    meaning: str


@dataclass(slots=True)
class _Reader:
    """Reads the members of one class from its source, in their order."""

    lines: list[str]
    members: dict[str, Member] = field(default_factory=dict)

    def add(self, name: str, type_: str, line: int, meaning: str = "") -> None:
        if not name.startswith("_") and name not in self.members:
            self.members[name] = Member(name, type_, meaning or self._comment(line))

    def _comment(self, line: int) -> str:
        """The comment above a line."""
        found: list[str] = []
        number = line - 2
        while number >= 0 and self.lines[number].strip().startswith("#"):
            found.insert(0, self.lines[number].strip().lstrip("# "))
            number -= 1
        return " ".join(found)


def members_of(class_: type) -> dict[str, Member]:
    source = textwrap.dedent(inspect.getsource(class_))
    reader = _Reader(source.splitlines())
    (tree,) = ast.parse(source).body
    assert isinstance(tree, ast.ClassDef)
    for node in tree.body:
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            reader.add(node.target.id, ast.unparse(node.annotation), node.lineno)
        elif isinstance(node, ast.FunctionDef):
            if node.name == "__init__":
                _read_init(reader, node)
            else:
                _read_method(reader, node)
    return reader.members


def _read_method(reader: _Reader, node: ast.FunctionDef) -> None:
    decorators = {ast.unparse(each) for each in node.decorator_list}
    if decorators & {"overload"} or any(name.endswith(".setter") for name in decorators):
        return
    returns = ast.unparse(node.returns) if node.returns is not None else ""
    meaning = (ast.get_docstring(node) or "").partition("\n\n")[0].replace("\n", " ")
    if decorators & {"property", "cached_property"}:
        reader.add(node.name, returns, node.lineno, meaning)
        return
    arguments = ast.unparse(node.args).removeprefix("self").removeprefix(", ")
    reader.add(node.name, f"({arguments}) -> {returns}", node.lineno, meaning)


def _read_init(reader: _Reader, init: ast.FunctionDef) -> None:
    """Attributes that the constructor sets, with the types of its parameters."""
    types = {each.arg: ast.unparse(each.annotation) for each in init.args.args if each.annotation}
    for node in ast.walk(init):
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Attribute):
            reader.add(node.target.attr, ast.unparse(node.annotation), node.lineno)
        elif isinstance(node, ast.Assign):
            for target, value in _pairs(node):
                reader.add(target, types.get(ast.unparse(value), _made(value)), node.lineno)


def _pairs(node: ast.Assign) -> Iterator[tuple[str, ast.expr]]:
    for target in node.targets:
        if isinstance(target, ast.Attribute):
            yield target.attr, node.value
        elif isinstance(target, ast.Tuple) and isinstance(node.value, ast.Tuple):
            for one, value in zip(target.elts, node.value.elts, strict=True):
                if isinstance(one, ast.Attribute):
                    yield one.attr, value


def _made(value: ast.expr) -> str:
    """The class that a call makes; empty where that is not plain."""
    if isinstance(value, ast.Call) and isinstance(value.func, ast.Name):
        return value.func.id if value.func.id[0].isupper() else ""
    return ""


def samples() -> dict[type, object]:
    """One object of each class whose attributes have types that the source does not name."""
    objects = (builders.queue(), builders.node("n1"), builders.job("sample", 1))
    engine = builders.fill(Engine(), *objects)

    def of_session(session: Session) -> dict[type, object]:
        one = session.jobs["ns/sample"]
        task = next(iter(one.index))
        made: tuple[object, ...] = (session, one, task, task.class_, session.sub_job_of(task))
        table = session.table
        made = (*made, one.index, table, table.entry("n1"), session.data("sample"))
        return {type(each): each for each in made}

    return engine.inspect(of_session, builders.NOW_NS)


def page() -> str:
    parts, held = [_HEAD], samples()
    for title, classes in SECTIONS.items():
        parts.append(f"\n## {title}\n")
        for class_, chosen in classes.items():
            parts += _class_lines(class_, chosen, held.get(class_))
    return "\n".join(parts).rstrip() + "\n"


def _class_lines(
    class_: type, chosen: frozenset[str] | None, sample: object | None
) -> Iterator[str]:
    found, own = members_of(class_), MEANINGS.get(class_, {})
    missing = sorted((set(chosen or ()) | set(own)) - set(found))
    if missing:
        raise ValueError(f"{class_.__name__} has no {', '.join(missing)}; take them off the list")
    yield f"### {class_.__name__}\n"
    yield f"`{class_.__module__}.{class_.__name__}`: {_sentence(class_)}\n"
    yield "| member | type | meaning |"
    yield "|---|---|---|"
    for member in found.values():
        if chosen is None or member.name in chosen:
            type_ = member.type or type(getattr(sample, member.name)).__name__
            meaning = member.meaning or own.get(member.name) or MEANINGS[None].get(member.name, "")
            if not meaning:
                raise ValueError(f"{class_.__name__}.{member.name} has no meaning; add one")
            yield f"| `{member.name}` | {_code(type_)} | {_cell(meaning)} |"
    yield ""


def _sentence(class_: type) -> str:
    return _cell((inspect.getdoc(class_) or "").partition("\n\n")[0].replace("\n", " "))


def _code(type_: str) -> str:
    return f"`{_cell(type_)}`" if type_ else ""


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def main() -> None:
    PAGE.write_text(page(), encoding="utf-8")


if __name__ == "__main__":
    main()
