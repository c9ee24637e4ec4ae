"""Caches, which hold the results of own writes besides the events of a watch."""

from collections.abc import Iterable

import msgspec
import pytest

from pumice.adapters.kubernetes.object_head import HEAD
from pumice.adapters.runtime.metrics import Metrics
from pumice.controllers.metric_definitions import CONTROLLER_SERIES
from pumice.controllers.resources import PODS
from pumice.controllers.runtime.cache import ObjectCache
from pumice.controllers.runtime.objects import ApiObject
from pumice.controllers.runtime.watches import Change, Watch, by_owner


def by_color(obj: ApiObject) -> Iterable[tuple[str, str]]:
    color = obj.metadata.label("color")
    return ((obj.metadata.namespace, color),) if color else ()


class _Log:
    """A cache that a test fills by hand, and its changes."""

    def __init__(self) -> None:
        indexes = {"owner": by_owner, "color": by_color}
        watch = Watch(PODS, ApiObject, label_selector="made=yes", indexes=indexes)
        self.cache = ObjectCache(watch, Metrics(CONTROLLER_SERIES))
        self.changes: list[tuple[str, str]] = []
        self.cache.listeners.append(self._take)

    def _take(self, change: Change[ApiObject]) -> None:
        old, new = (one and one.metadata.resource_version for one in (change.old, change.new))
        self.changes.append((old or "", new or ""))

    def see(self, version: int, uid: str = "u", **labels: str) -> None:
        raw = body(version, uid, **labels)
        self.cache.upsert(HEAD.decode(raw), msgspec.Raw(raw))

    def lose(self, uid: str = "u") -> None:
        self.cache.delete(HEAD.decode(body(99, uid)))


def body(version: int, uid: str = "u", **labels: str) -> bytes:
    metadata = {
        "namespace": "ns", "name": "a", "uid": uid, "resourceVersion": str(version),
        "labels": {"made": "yes", **labels},
    }  # fmt: skip
    return msgspec.json.encode({"metadata": metadata})


def test_events_that_are_older_than_our_own_write_change_nothing() -> None:
    log = _Log()
    log.cache.assume(body(7, color="red"))
    log.see(5, color="blue")
    log.see(7, color="red")
    assert log.changes == [("", "7")]
    assert [s.metadata.uid for s in log.cache.by("color", ("ns", "red"))] == ["u"]
    assert log.cache.by("color", ("ns", "blue")) == []
    log.see(8, color="blue")
    assert log.cache.by("color", ("ns", "red")) == []
    assert len(log.cache.by("color", ("ns", "blue"))) == 1


def test_a_deleted_object_stays_deleted_while_its_events_arrive() -> None:
    log = _Log()
    log.see(5)
    log.cache.assume_deleted(("ns", "a"), "u")
    log.see(6)
    assert len(log.cache) == 0
    log.lose()
    log.see(9, uid="other")
    assert log.changes == [("", "5"), ("5", ""), ("", "9")]


def test_an_answer_that_is_older_than_the_deletion_changes_nothing() -> None:
    log = _Log()
    log.see(5)
    log.lose()
    log.cache.assume(body(7))
    assert log.changes == [("", "5"), ("5", "")]


def test_an_answer_that_is_older_than_a_list_changes_nothing() -> None:
    log = _Log()
    log.see(5)
    log.cache.begin_list()
    log.cache.end_list("9")
    log.cache.assume(body(7))
    assert log.changes == [("", "5"), ("5", "")]


@pytest.mark.parametrize("is_shown_first", [True, False])
def test_an_answer_without_a_version_says_that_another_deletion_was_faster(
    is_shown_first: bool,
) -> None:
    log = _Log()
    log.see(5)
    answer = {"namespace": "ns", "name": "a", "uid": "u", "labels": {"made": "yes"}}
    if is_shown_first:
        log.lose()
    log.cache.assume(msgspec.json.encode({"metadata": answer}))
    if not is_shown_first:
        log.lose()
    assert log.changes == [("", "5"), ("5", "")]
    assert len(log.cache) == 0


def test_a_list_keeps_what_was_written_while_it_was_read() -> None:
    log = _Log()
    log.cache.begin_list()
    log.cache.assume(body(7))
    log.cache.end_list("6")
    assert len(log.cache) == 1
    log.cache.begin_list()
    log.cache.end_list("9")
    assert log.changes == [("", "7"), ("7", "")]


def test_a_list_drops_what_was_deleted_before_it_although_an_answer_came_while_it_was_read() -> (
    None
):
    log = _Log()
    log.see(5)
    log.cache.begin_list()
    log.cache.assume(body(7))
    log.cache.end_list("9")
    assert log.changes == [("", "5"), ("5", "7"), ("7", "")]


def test_a_resource_that_is_missing_has_no_objects() -> None:
    log = _Log()
    log.cache.assume(body(7))
    log.cache.begin_list()
    log.cache.end_list("")
    assert len(log.cache) == 0


def test_an_object_that_took_the_name_of_another_replaces_it() -> None:
    log = _Log()
    log.see(5, uid="old")
    log.see(7, uid="new")
    log.see(6, uid="old")
    assert log.changes == [("", "5"), ("5", ""), ("", "7")]


def test_an_object_that_the_selector_does_not_select_is_not_assumed() -> None:
    log = _Log()
    log.cache.assume(body(5, made="no"))
    assert len(log.cache) == 0
