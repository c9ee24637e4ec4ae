"""Files and streams: many documents, lists, and what is wrong with them, each by its place."""

from __future__ import annotations

import io
import json
import pickle
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest

from pumice.manifests import ManifestError, Translation, translate_all, translate_documents
from tests.manifests.manifest import manifest


def read(text: str, name: str = "f.yaml") -> Translation:
    stream = io.StringIO(dedent(text))
    stream.name = name
    return translate_all(stream)


def names(found: Translation) -> list[str]:
    result = []
    for one in found.objects:
        which = one.WhichOneof("object")
        assert which is not None
        result.append(f"{which} {getattr(one, which).name}")
    return result


def problems(found: Translation) -> list[str]:
    return [str(error) for error in found.errors]


NODES = """\
apiVersion: v1
kind: Node
metadata: {name: n1}
---
# Nothing but a comment.
---
apiVersion: v1
kind: Node
metadata: {name: n2}
"""


def test_yaml_with_many_documents() -> None:
    found = read(NODES)
    assert names(found) == ["node n1", "node n2"]
    assert not found.errors


def test_json_with_one_object() -> None:
    assert names(read(json.dumps(manifest("v1", "Node")))) == ["node x"]


def test_json_with_an_array_of_objects() -> None:
    text = json.dumps([manifest("v1", "Node", name="a"), manifest("v1", "Node", name="b")])
    assert names(read(text)) == ["node a", "node b"]


def test_yaml_in_braces() -> None:
    assert names(read("{apiVersion: v1, kind: Node, metadata: {name: n}}")) == ["node n"]


def test_lists_are_taken_apart() -> None:
    inner = {"apiVersion": "v1", "kind": "List", "items": [manifest("v1", "Node", name="b")]}
    outer = {"apiVersion": "v1", "kind": "List", "items": [manifest("v1", "Node"), inner]}
    assert names(read(json.dumps(outer))) == ["node x", "node b"]


def test_items_of_a_list_of_one_kind_need_not_say_it() -> None:
    items = [{"metadata": {"name": "a"}}, {"metadata": {"name": "b"}}]
    found = read(json.dumps({"apiVersion": "v1", "kind": "NodeList", "items": items}))
    assert names(found) == ["node a", "node b"]
    assert names(read('{"apiVersion": "v1", "kind": "NodeList", "items": null}')) == []


def test_kinds_that_scheduling_does_not_read_are_ignored_by_name() -> None:
    found = read(
        """\
        apiVersion: v1
        kind: ConfigMap
        metadata: {name: c, namespace: a}
        ---
        apiVersion: scheduling.k8s.io/v1alpha2
        kind: Workload
        metadata: {name: native}
        """
    )
    assert [str(one) for one in found.ignored] == [
        "f.yaml:1: ConfigMap a/c: ignored, v1 ConfigMap is not read",
        "f.yaml:5: Workload native: ignored, scheduling.k8s.io/v1alpha2 Workload is not read",
    ]
    assert not found.errors


def test_a_bad_object_is_set_aside_and_the_rest_goes_on() -> None:
    found = read(
        """\
        apiVersion: v1
        kind: Node
        metadata: {name: bad}
        status: {allocatable: {cpu: -1}}
        ---
        apiVersion: v1
        kind: Node
        metadata: {name: good}
        """
    )
    assert names(found) == ["node good"]
    assert problems(found) == [
        "f.yaml:1: Node bad: status.allocatable[cpu]: -1 is negative; allowed: zero or more"
    ]


def test_a_document_that_is_not_yaml_costs_only_itself() -> None:
    found = read(f"{NODES}---\na: [b\n---\n" + NODES.replace("n1", "n3").replace("n2", "n4"))
    assert names(found) == ["node n1", "node n2", "node n3", "node n4"]
    assert problems(found) == ["f.yaml:12: invalid YAML: did not find expected ',' or ']'"]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("a: b: c", "f.yaml:1: invalid YAML: mapping values are not allowed"),
        ("x: 1\n\tb: 2",
         "f.yaml:2: invalid YAML: found "),
        ("kind: Node\nmetadata:\n  name: a\n  name: b",
         "f.yaml:4: invalid YAML: the key 'name' is given twice"),
        ("a: !!python/object:os.system x",
         "f.yaml:1: invalid YAML: could not determine a constructor for the tag "
         "'tag:yaml.org,2002:python/object:os.system'"),
        ("just words",
         "f.yaml:1: str given where an object was expected; "
         "allowed: an object with apiVersion and kind"),
        ("- 1",
         "f.yaml:1[0]: int given where an object was expected; "
         "allowed: an object with apiVersion and kind"),
        ("metadata: {name: a, namespace: b}", "f.yaml:1: b/a: apiVersion: is missing"),
        ("apiVersion: v1\nmetadata: {name: a}", "f.yaml:1: a: kind: is missing"),
        ("apiVersion: 1\nkind: Node", "f.yaml:1: apiVersion: 1 is not text"),
        ("apiVersion: v1\nkind: []", "f.yaml:1: kind: [] is not text"),
        ("apiVersion: v1\nkind: Node\nmetadata: x",
         "f.yaml:1: Node: metadata: expected object, got str"),
        ("apiVersion: v1\nkind: NodeList\nitems: x", "f.yaml:1: NodeList: items: is not a list"),
        ("apiVersion: v1\nkind: Node\nmetadata: {name: a}\nstatus: {capacity: {cpu: .inf}}",
         "f.yaml:1: Node a: status.capacity[cpu]: '.inf' is not a quantity; allowed: a number "
         "with an optional suffix n u m k M G T P E Ki Mi Gi Ti Pi Ei or exponent such as e3"),
        ("a: &a [*a]", "f.yaml:1: aliases make it larger than 2000000 values"),
        ("\n".join(["a0: &a0 [x]", *(f"a{n}: &a{n} [{','.join([f'*a{n - 1}'] * 10)}]"
                                     for n in range(1, 12))]),
         "f.yaml:1: aliases make it larger than 2000000 values"),
    ],
)  # fmt: skip
def test_what_is_not_a_manifest_is_named_by_line(text: str, problem: str) -> None:
    found = read(text)
    (said,) = problems(found)
    # What follows is the YAML library's to say.
    assert said.startswith(problem) if "invalid YAML" in problem else said == problem
    assert "\n" not in said
    assert not found.objects


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ('{"kind": "Node",\n "metadata": }', "f.json:2: JSON is malformed: invalid character"),
        ('{"kind": "Node"', "f.json: Input data was truncated"),
    ],
)
def test_malformed_json_is_named_by_line(text: str, problem: str) -> None:
    assert problems(read(text, "f.json")) == [problem]


@pytest.mark.parametrize("depth", [300, 100_000])
@pytest.mark.parametrize(
    ("name", "opening", "closing"),
    [("f.yaml", "a: {", "}"), ("f.yaml", "- ", ""), ("f.yaml", "[", "]"), ("f.json", "[", "]"),
     ("f.json", '{"a": ', "}")],
)  # fmt: skip
def test_deep_nesting_is_refused(name: str, opening: str, closing: str, depth: int) -> None:
    (problem,) = problems(read(opening * depth + "1" + closing * depth, name))
    assert "nested too deeply" in problem or (name, opening) == ("f.json", '{"a": ')


def test_text_that_is_not_unicode_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "f.yaml"
    path.write_bytes(b"kind: \xff")
    assert problems(translate_all(path)) == [f"{path}: is not UTF-8 text (byte 6)"]


def test_a_mark_at_the_start_of_a_file_is_skipped(tmp_path: Path) -> None:
    path = tmp_path / "f.yaml"
    path.write_bytes(b"\xef\xbb\xbf" + NODES.encode())
    assert names(translate_all(path)) == ["node n1", "node n2"]


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    path = tmp_path / "f.yaml"
    assert problems(translate_all(path)) == [f"{path}: No such file or directory"]


def test_duplicates_are_named_with_the_first_and_set_aside(tmp_path: Path) -> None:
    first, second = tmp_path / "a.yaml", tmp_path / "b.yaml"
    first.write_text(NODES)
    second.write_text(NODES.replace("n2", "n3"))
    found = translate_all(first, second)
    assert names(found) == ["node n1", "node n2", "node n3"]
    assert problems(found) == [
        f"{second}:1: Node n1: metadata.name: duplicate name, first used at {first}:1"
    ]


def test_two_objects_cannot_share_a_uid_and_two_kinds_can() -> None:
    found = translate_documents(
        [
            manifest("v1", "Node", name="a", uid="1"),
            manifest("v1", "Node", name="b", uid="1"),
            manifest("v1", "Namespace", name="a", uid="1"),
        ],
        "objects",
    )
    assert names(found) == ["node a", "namespace a"]
    assert problems(found) == [
        "objects[1]: Node b: metadata.uid: duplicate uid, first used at objects[0]"
    ]


def test_the_same_name_in_two_namespaces_is_no_duplicate() -> None:
    found = translate_documents(
        [manifest("v1", "Service", namespace=where) for where in ("a", "b")]
    )
    assert len(found.objects) == 2


@pytest.mark.parametrize(
    ("field", "text"),
    [
        ("metadata", {"name": "x", "creationTimestamp": None, "labels": None}),
        ("spec", None),
        ("spec", {"taints": None, "unschedulable": None}),
        ("status", {"allocatable": None}),
    ],
)
def test_null_is_the_same_as_absent(field: str, text: Any) -> None:
    found = translate_documents([{**manifest("v1", "Node"), field: text}])
    assert names(found) == ["node x"]


def test_times_and_sixties_in_yaml_are_text() -> None:
    found = read(
        """\
        apiVersion: v1
        kind: Node
        metadata:
          name: n
          creationTimestamp: 2026-01-01T00:00:00Z
          labels: {time: 12:30:45, date: 2026-01-01}
        """
    )
    node = found.objects[0].node
    assert node.creation_time.ToNanoseconds() == 1767225600 * 10**9
    assert dict(node.labels) == {"time": "12:30:45", "date": "2026-01-01"}


def test_yaml_anchors_and_merges_work() -> None:
    found = read(
        """\
        apiVersion: v1
        kind: List
        items:
        - &base
          apiVersion: v1
          kind: Node
          metadata: {name: a}
          status: {allocatable: &has {cpu: 1}}
        - <<: *base
          metadata: {name: b}
        """
    )
    assert [one.node.allocatable["cpu"] for one in found.objects] == [1000, 1000]


def test_errors_survive_the_way_between_processes() -> None:
    error = ManifestError("p", source="s", kind="k", name="n", field="f", allowed="a")
    assert str(pickle.loads(pickle.dumps(error))) == str(error) == "s: k n: f: p; allowed: a"
