"""The page of limits: every limit with its value, and a test that drives it."""

import importlib
import re
from dataclasses import fields
from pathlib import Path
from typing import Any

from pumice.adapters.runtime.options import RuntimeOptions
from pumice.server.limits import Limits

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs/reference/limits.md"
ROW = re.compile(
    r"^\| [^|]+ \| ([^|]+) \| `([\w.]+)` \| [^|]+ \| `([\w./]+)(?:::(\w+))?` \|$", re.M
)
SECOND_NS = 1_000_000_000
# Of several names on a line too.
CORE_LIMIT = re.compile(
    r"^(?:\w+, )*(_?(?:MAX|MOST|LONGEST)(?:_\w+)?)(?:, \w+)*(?:: Final)? =", re.M
)
ADAPTER_LIMIT = re.compile(
    r"^((?:_?(?:MAX|MOST|LONGEST)_\w+|\w*_TRIES|\w*REMEMBERED))(?:: Final)? =", re.M
)
# Limits that nobody notices, each with the reason.
NOT_LISTED = {
    # Work of one explanation or answer, which is less exact beyond them.
    "explaining.earlier_members.MAX_ONE_BY_ONE",
    "explaining.reached_limits._MOST_AHEAD",
    # Names in one sentence.
    "explaining.names._MOST",
    "explaining.node_details._MOST",
    # A page of decisions: inspection.MAX_PAGE_SIZE is the limit of a caller.
    "records.MAX_ITEMS",
    # How long a status waits for a newer one, not how much is accepted.
    "pumice.adapters.runtime.status_delays._MOST_DELAYS",
    "pumice.adapters.runtime.status_delays._MOST_DELAYS_OF_MINOR",
    "pumice.adapters.runtime.event_writer._LONGEST_PAUSE_SECONDS",
    "pumice.controllers.job.reconcile._LONGEST_COUNTERS_MS",
    # How long a watch is not read, and how many ops one Ack may stand for.
    "pumice.adapters.kubernetes.reflector._LONGEST_PAUSE_SECONDS",
    "stream._MOST_UNACKNOWLEDGED",
    # The order of calls and sessions on the thread of a cluster, and when a session begins.
    "owner._MAX_DELAY_NS",
    "session_timer.LONGEST_WAIT_NS",
    "session_timer._MOST_GANGS",
    # Delays between two writes of the count of an event.
    "pumice.adapters.kubernetes.events._LONGEST_GAP_SECONDS",
    # Connections of old credentials are closed when the longest watch has ended.
    "pumice.adapters.kubernetes.session._LONGEST_WATCH_SECONDS",
}


def rows() -> list[tuple[str, str, str, str]]:
    return ROW.findall(PAGE.read_text(encoding="utf-8"))


def value_of(place: str) -> float:
    full = place if place.startswith("pumice.") else f"pumice.server.{place}"
    module, _, name = full.rpartition(".")
    for options in (Limits(), RuntimeOptions("", "")):
        if module.endswith(f".{type(options).__name__}"):
            return _number(getattr(options, name))
    return _number(getattr(importlib.import_module(module), name))


def _number(value: Any) -> float:
    # The limit of growing delays is the last one.
    return float(getattr(value, "ceiling_seconds", value))


def test_every_row_has_the_value_of_the_code() -> None:
    assert len(rows()) > 100
    for shown, place, _, _ in rows():
        number, _, unit = shown.partition(" ")
        scale = SECOND_NS if unit == "s" and place.lower().endswith("_ns") else 1
        assert int(number) * scale == value_of(place), place


def test_every_row_of_the_page_is_read() -> None:
    text = PAGE.read_text(encoding="utf-8")
    lines = [line for line in text.splitlines() if line.startswith("| ")]
    tables = sum(line.startswith("| limit |") for line in lines)
    assert len(rows()) == len(lines) - tables


def test_every_limit_of_the_core_has_a_row() -> None:
    listed = {place for _, place, _, _ in rows()}
    wanted = {f"limits.Limits.{name}" for name in Limits.__dataclass_fields__}
    for path in (ROOT / "server/pumice/server").rglob("*.py"):
        module = ".".join(path.relative_to(ROOT / "server/pumice/server").with_suffix("").parts)
        names = CORE_LIMIT.findall(path.read_text(encoding="utf-8"))
        wanted |= {f"{module}.{name}" for name in names}
    assert len(wanted) > 60
    assert wanted - listed - NOT_LISTED == set()


def test_every_limit_of_the_adapter_has_a_row() -> None:
    listed = {place for _, place, _, _ in rows()}
    prefix = "pumice.adapters.runtime.options.RuntimeOptions."
    wanted = {prefix + each.name for each in fields(RuntimeOptions) if each.type in ("int", int)}
    assert wanted
    paths = [
        *(ROOT / "adapters/pumice/adapters").glob("[kr]u[bn]*/*.py"),
        *(ROOT / "adapters/pumice/controllers").rglob("*.py"),
    ]
    for path in paths:
        module = ".".join(path.relative_to(ROOT / "adapters").with_suffix("").parts)
        names = ADAPTER_LIMIT.findall(path.read_text(encoding="utf-8"))
        wanted |= {f"{module}.{name}" for name in names}
    assert len(wanted) > 20
    assert wanted - listed - NOT_LISTED == set()


def test_every_row_names_a_test_that_exists() -> None:
    for _, place, file, name in rows():
        text = (ROOT / file).read_text(encoding="utf-8")
        assert not name or f"def {name}(" in text, place
