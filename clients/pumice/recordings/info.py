"""Facts about a recording: times, sessions, decisions, objects and problems."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from pumice.recordings.reader import Recording
from pumice.recordings.sections import Sections
from pumice.v1.object_pb2 import Kind
from pumice.v1.recording_pb2 import RecordingEntry

_SECOND_NS = 1_000_000_000


@dataclass(slots=True)
class RecordingInfo:
    """Facts about one file."""

    path: Path
    cluster: str
    core_version: str
    redacted: bool
    size_bytes: int
    # Cores that wrote the file, one after another; a restarted core counts again.
    core_ids: list[str] = field(default_factory=list)
    start_ns: int = 0
    end_ns: int = 0
    # The first and last number of each run of sessions.
    sessions: list[tuple[int, int]] = field(default_factory=list)
    session_count: int = 0
    binds: int = 0
    evictions: int = 0
    faults: int = 0
    # Changes of objects after the checkpoints, and objects of the first checkpoint, by kind.
    changes: int = 0
    objects: dict[str, int] = field(default_factory=dict)
    configurations: int = 0
    # Plugins and actions of other packages, with their versions.
    plugins: dict[str, str] = field(default_factory=dict)
    # Entries of unknown kinds.
    unknown_entries: int = 0
    # Damage, and sessions that are missing inside the file.
    problems: list[str] = field(default_factory=list)
    # Whether the file was closed properly, so that it has an index.
    is_closed: bool = False

    @property
    def seconds(self) -> float:
        return max(self.end_ns - self.start_ns, 0) / _SECOND_NS

    @classmethod
    def read(cls, recording: Recording, sections: Sections | None = None) -> RecordingInfo:
        """Reads the whole file; ``sections`` collects the sections of several files."""
        header = recording.header
        info = cls(
            recording.path,
            header.cluster,
            header.core_version,
            header.redacted,
            recording.size,
            plugins={
                name: version
                for name, version in sorted(header.plugin_versions.items())
                if version != header.core_version
            },
            is_closed=recording.is_closed,
        )
        own = Sections()
        info._read_entries(recording.entries(), own)
        if sections is not None:
            sections.found += own.found
        info.unknown_entries = recording.unknown
        if recording.ending is not None:
            info.problems.append(str(recording.ending))
        info.problems += own.gaps()
        return info

    def _read_entries(self, entries: Iterable[RecordingEntry], sections: Sections) -> None:
        kinds: Counter[str] = Counter()
        for entry in entries:
            sections.note(self.path, entry)
            at_ns = entry.entry_time.ToNanoseconds()
            if at_ns:
                self.start_ns = self.start_ns or at_ns
                self.end_ns = max(self.end_ns, at_ns)
            self._read_entry(entry, kinds)
        self.objects = dict(sorted(kinds.items()))

    def _read_entry(self, entry: RecordingEntry, kinds: Counter[str]) -> None:
        match entry.WhichOneof("entry"):
            case "header":
                self.core_ids.append(entry.header.core_id)
            case "checkpoint":
                self.configurations += entry.checkpoint.HasField("configuration")
                if len(self.core_ids) == 1:
                    kinds.update(_kind(upsert.kind) for upsert in entry.checkpoint.objects)
            case "delta_batch":
                self.changes += len(entry.delta_batch.ops)
                self.configurations += sum(
                    op.HasField("configuration") for op in entry.delta_batch.ops
                )
            case "decision_batch":
                evictions = sum(d.HasField("evict") for d in entry.decision_batch.decisions)
                self.evictions += evictions
                self.binds += len(entry.decision_batch.decisions) - evictions
            case "session_end":
                self._note_session(entry.session_end.session)
                self.faults += len(entry.session_end.faults)
            case _:
                pass

    def _note_session(self, number: int) -> None:
        self.session_count += 1
        if self.sessions and number > self.sessions[-1][1]:
            self.sessions[-1] = (self.sessions[-1][0], number)
        else:
            self.sessions.append((number, number))


def _kind(number: int) -> str:
    known = number in Kind.values()
    name = Kind.Name(Kind.ValueType(number)) if known else f"KIND_{number}"
    return name.removeprefix("KIND_").title().replace("_", "")
