"""Files as scenarios: one for each scenario file, and one for all manifests together."""

from __future__ import annotations

import io
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from pumice.cli.errors import InputProblem
from pumice.cli.simulation.scenarios import Scenario, is_scenario, read_scenario
from pumice.manifests import ManifestError, translate_all
from pumice.manifests.documents import Document, parse
from pumice.v1.group_pb2 import QUEUE_STATE_OPEN, QUEUE_STATE_UNSPECIFIED, Queue
from pumice.v1.object_pb2 import ClusterObject

STDIN = "-"
DEFAULT_QUEUE = "default"


class Sources:
    """The named files, read one by one; an invalid file does not affect the others."""

    def __init__(self, files: Sequence[str], conf: str | None, cycles: int | None) -> None:
        self._files = files
        self._conf = conf
        self._cycles = cycles

    def __len__(self) -> int:
        return len(self._files)

    def __iter__(self) -> Iterator[Scenario | InputProblem]:
        manifests: list[tuple[str, bytes]] = []
        for file in self._files:
            try:
                text = _read(file)
                body = _scenario_in(text, file)
                if body is None:
                    manifests.append((file, text))
                else:
                    yield self._with_options(read_scenario(body.body, _shown(file)))
            except InputProblem as problem:
                yield problem
        if manifests:
            yield self._cluster(manifests)

    def _with_options(self, scenario: Scenario) -> Scenario:
        return replace(
            scenario,
            conf=scenario.conf if self._conf is None else self._conf,
            cycles=self._cycles or scenario.cycles,
        )

    def _cluster(self, manifests: Sequence[tuple[str, bytes]]) -> Scenario | InputProblem:
        """The cluster that some manifests describe together."""
        translation = translate_all(*(_Named(text, _shown(file)) for file, text in manifests))
        source = ", ".join(_shown(file) for file, _ in manifests)
        errors = tuple(str(error) for error in translation.errors)
        if not translation.objects:
            return InputProblem("; ".join(errors) or f"{source}: contains no objects")
        return Scenario(
            source,
            Path(source).stem if len(manifests) == 1 else "manifests",
            "",
            self._conf,
            self._cycles or 1,
            (*translation.objects, *complete_queues(translation.objects)),
            errors,
            tuple(sorted({ignored.kind for ignored in translation.ignored})),
        )


def complete_queues(objects: Sequence[ClusterObject]) -> list[ClusterObject]:
    """Opens queues without a state, and returns the default queue if it is missing.

    In a cluster, Volcano's controllers do this; manifests of users lack it.
    """
    queues = [held.queue for held in objects if held.HasField("queue")]
    for queue in queues:
        if queue.state == QUEUE_STATE_UNSPECIFIED:
            queue.state = QUEUE_STATE_OPEN
    if any(queue.name == DEFAULT_QUEUE for queue in queues):
        return []
    default = Queue(uid=DEFAULT_QUEUE, name=DEFAULT_QUEUE, weight=1, state=QUEUE_STATE_OPEN)
    return [ClusterObject(queue=default)]


class _Named(io.BytesIO):
    """Text in memory, with the name of its file."""

    def __init__(self, text: bytes, name: str) -> None:
        super().__init__(text)
        self.name = name


def read_manifest(file: str) -> tuple[str, str]:
    """The name and the text of a file or of standard input."""
    return _shown(file), read_text(file)


def _shown(file: str) -> str:
    return "<stdin>" if file == STDIN else file


def _read(file: str) -> bytes:
    try:
        return sys.stdin.buffer.read() if file == STDIN else Path(file).read_bytes()
    except OSError as error:
        raise InputProblem(f"{file}: {error.strerror or error}") from None


def _scenario_in(text: bytes, file: str) -> Document | None:
    """The scenario in a file; None for manifests, whose errors are found later."""
    found = list(parse(text, _shown(file)))
    if len(found) != 1:
        return None
    only = found[0]
    if isinstance(only, ManifestError):
        # The only document is unreadable.
        raise InputProblem(str(only))
    return only if is_scenario(only.body) else None


def read_text(file: str) -> str:
    """The text of a file, or of standard input."""
    try:
        return _read(file).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputProblem(f"{_shown(file)}: not UTF-8 text (byte {error.start})") from None
