"""Redaction: replaces user-chosen names in a recording, and keeps order and structure.

Equal names stay equal, names sort as before, selectors match as before, and numbers at the end of
pods' names stay, so that a redacted recording replays to the same decisions. Messages, events and
other free text are dropped. Names of Kubernetes, Volcano and pumice are kept.
"""

from __future__ import annotations

import hmac
import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Protocol

from google.protobuf.message import Message

from pumice.recordings.errors import RecordingError
from pumice.recordings.reader import Recording
from pumice.v1.recording_pb2 import RecordingEntry

# By message and field. All other strings are names.
_KEPT = {
    "AssumedDecision.decision_id",
    "Configuration.compat",
    "Configuration.device_config",
    "Configuration.ignored_provisioners",
    "Configuration.scheduler_names",
    "ConfigurationResult.effective_config_hash",
    "CsiDriver.name",
    "Decision.id",
    "DeltaBatch.incarnation",
    "Evict.reason",
    "Hello.adapter_version",
    "Hello.held_decision_ids",
    "Hello.incarnation",
    "HostPort.ip",
    "Outcome.decision_id",
    "PersistentVolume.csi_driver",
    "PluginFault.author",
    "PluginFault.where",
    "Pod.controller_kind",
    "Pod.revocable_zone",
    "PodCondition.reason",
    "PodCondition.type",
    "PodConditionChange.reason",
    "PodGroup.revocable_zone",
    "PodGroupCondition.reason",
    "PodGroupCondition.transition_id",
    "PodGroupCondition.type",
    "PodMemory.reason",
    "PodSpec.scheduler_name",
    "PodSpec.scheduling_gates",
    "RecordingCheckpoint.effective_config_hash",
    "RecordingCheckpoint.incarnation",
    "RecordingHeader.core_id",
    "RecordingHeader.core_version",
    "RejectedObject.field",
    "StorageClass.csi_driver_name",
    "StorageClass.provisioner",
    "VolumeAttachment.attacher",
    "Welcome.core_id",
    "Welcome.core_version",
    "Welcome.effective_config_hash",
}
_DROPPED = {
    "ConfigurationResult.problems",
    "JobMemory.hyper_nodes",
    "JobMemory.event_messages",
    "JobMemory.unschedulable_message",
    "Outcome.reason",
    "PluginFault.error",
    "PluginFault.file",
    "PodCondition.message",
    "PodConditionChange.message",
    "PodGroupCondition.message",
    "PodMemory.message",
    "RejectedObject.reason",
    "StatusBatch.events",
}
# ``namespace/name``.
_KEYS = {
    "AssumedClaim.claim",
    "AssumedDecision.job",
    "AssumedVolume.claim",
    "BrokenGang.job",
    "CoolDown.job",
    "Evict.for_job",
    "Evict.job",
    "Gang.job",
    "JobMemory.job",
    "PersistentVolume.claim_key",
    "PluginFault.job",
    "RejectedObject.key",
}
# The prefix of data about the NPUs of a node; the node's name follows.
_NPU_DATA = "npu/"
_GANGS = {"Decision.gang_id", "Gang.id"}
_LABEL_KEYS = {
    "PodAffinityTerm.topology_key",
    "Requirement.key",
    "SpreadConstraint.topology_key",
    "SubGroupPolicy.match_label_keys",
    "Taint.key",
    "Toleration.key",
}
_NAMESPACES = {"Namespace.name"}
_LABELS = ("labels", "node_selector")
_OUR_DOMAINS = ("kubernetes.io", "k8s.io", "volcano.sh")
# Durations and numbers of CPUs, which contain no names.
_KEPT_ANNOTATIONS = frozenset({"pumice.sh/run-time", "pumice.sh/numa-cpus"})
_NUMBER = re.compile(r"-?[0-9]+", re.ASCII)
_KEPT_NAMES = {
    "",
    "default",
    "root",
    "system-cluster-critical",
    "system-node-critical",
    "true",
    "false",
}
_KEPT_NAMESPACES = {"", "default", "kube-system", "kube-public", "kube-node-lease"}
_INDEXED_NAME_PARTS = 3
_HASH_DIGITS = 12


class Renamer(Protocol):
    """Maps the three kinds of names to new names."""

    def name(self, text: str) -> str: ...

    def namespace(self, text: str) -> str: ...

    def label_key(self, text: str) -> str: ...


class Collector:
    """Collects all names without changing them."""

    def __init__(self) -> None:
        self.names: set[str] = set()
        self.namespaces: set[str] = set()
        self.label_keys: set[str] = set()

    def name(self, text: str) -> str:
        self.names.add(text)
        return text

    def namespace(self, text: str) -> str:
        self.namespaces.add(text)
        return text

    def label_key(self, text: str) -> str:
        self.label_keys.add(text)
        return text


class Pseudonyms:
    """New names that sort in the same order as the old ones."""

    def __init__(self, collector: Collector, source: str, key: bytes = b"") -> None:
        """With a key, each new name contains a hash of the old one."""
        self._source, self._key = source, key
        self._names = self._made(collector.names, _is_kept_name, "-n", str)
        # Keys are sorted as ``namespace/name``.
        self._namespaces = self._made(
            collector.namespaces, _KEPT_NAMESPACES.__contains__, "0n", lambda text: f"{text}/"
        )
        self._label_keys = self._made(collector.label_keys, _is_ours, "-n", str)
        self.name = self._names.__getitem__
        self.namespace = self._namespaces.__getitem__
        self.label_key = self._label_keys.__getitem__

    def _made(
        self,
        texts: Iterable[str],
        is_kept: Callable[[str], bool],
        mark: str,
        order: Callable[[str], str],
    ) -> dict[str, str]:
        """New names by old name: the last kept name before the old one, and a number."""
        found: dict[str, str] = {}
        last, previous = "", ""
        in_order = sorted(texts, key=order)
        width = len(str(len(in_order)))
        for number, text in enumerate(in_order):
            if is_kept(text):
                last = found[text] = text
            else:
                found[text] = f"{last}{mark}{number:0{width}d}{self._hash(text)}{_ending(text)}"
            if text and order(found[text]) < previous:
                raise RecordingError(
                    self._source,
                    f"cannot be redacted: a new name of {text!r} would sort differently",
                )
            previous = order(found[text])
        return found

    def _hash(self, text: str) -> str:
        """The hash of a name, which is the same in all recordings; numbers are not."""
        if not self._key:
            return ""
        made = hmac.new(self._key, text.encode("utf-8", "surrogatepass"), "sha256")
        return f"-h{made.hexdigest()[:_HASH_DIGITS]}"


def _ending(name: str) -> str:
    """The number at the end of a pod's name, which affects the order of pods."""
    parts = name.split("-")
    if len(parts) >= _INDEXED_NAME_PARTS and _NUMBER.fullmatch(parts[-1]):
        return f"-x-{parts[-1]}"
    return ""


def _is_kept_name(text: str) -> bool:
    return text in _KEPT_NAMES or _NUMBER.fullmatch(text) is not None


def _is_ours(key: str) -> bool:
    domain = key.rpartition("/")[0]
    return key in ("", "metadata.name") or domain.endswith(_OUR_DOMAINS)


def _without_comments(configuration: str) -> str:
    """The configuration without comments; names of actions, plugins and resources stay."""
    lines = configuration.splitlines(keepends=True)
    return "".join(line for line in lines if not line.lstrip().startswith("#"))


def pseudonyms(recordings: Iterable[Recording], key: bytes = b"") -> Pseudonyms:
    """One set of new names for all names in the recordings."""
    seen = Collector()
    source = ""
    for recording in recordings:
        source = source or str(recording.path)
        for entry in recording.entries():
            rewrite(entry, seen)
    return Pseudonyms(seen, source, key)


def redact(recording: Recording, names: Pseudonyms | None = None) -> Iterator[RecordingEntry]:
    """The entries with new names. Reads the recording twice, or once with given names."""
    names = names or pseudonyms([recording])
    for entry in recording.entries():
        rewrite(entry, names)
        if entry.HasField("header"):
            entry.header.redacted = True
        yield entry


def rewrite(message: Message, renamer: Renamer) -> None:
    """Replaces user-chosen names in place."""
    kind = message.DESCRIPTOR.name
    for field, value in message.ListFields():
        path = f"{kind}.{field.name}"
        if path in _DROPPED:
            message.ClearField(field.name)
        elif field.message_type is not None and field.message_type.GetOptions().map_entry:
            _rewrite_map(field.name, value, field.message_type, renamer)
        elif field.message_type is not None:
            for held in value if field.is_repeated else (value,):
                rewrite(held, renamer)
        elif path == "Configuration.scheduler_conf":
            setattr(message, field.name, _without_comments(value))
        elif field.type == field.TYPE_STRING and path not in _KEPT:
            if field.is_repeated:
                value[:] = [_renamed(path, text, renamer) for text in value]
            else:
                setattr(message, field.name, _renamed(path, value, renamer))


def _renamed(path: str, text: str, renamer: Renamer) -> str:
    if path in _LABEL_KEYS:
        return renamer.label_key(text)
    if path in _NAMESPACES or path.endswith((".namespace", ".namespaces")):
        return renamer.namespace(text)
    if path in _KEYS:
        return _key(text, renamer)
    if path == "PluginData.name" and text.startswith(_NPU_DATA):
        return f"{_NPU_DATA}{renamer.name(text.removeprefix(_NPU_DATA))}"
    if path in _GANGS:
        head, slash, key = text.partition("/")
        return f"{head}{slash}{_key(key, renamer)}" if slash else text
    return renamer.name(text)


def _key(text: str, renamer: Renamer) -> str:
    namespace, slash, name = text.rpartition("/")
    if not slash:
        return renamer.name(text)
    return f"{renamer.namespace(namespace)}/{renamer.name(name)}"


def _rewrite_map(name: str, held: Any, kind: Any, renamer: Renamer) -> None:
    value = kind.fields_by_name["value"]
    if name in _LABELS:
        renamed = {renamer.label_key(k): renamer.name(v) for k, v in held.items()}
    elif name == "annotations":
        kept = {k: v for k, v in held.items() if k in _KEPT_ANNOTATIONS}
        renamed = {k: _path(v, renamer) for k, v in held.items() if _is_ours(k)} | kept
    elif name == "min_task_member":
        renamed = {renamer.name(k): v for k, v in held.items()}
    elif value.message_type is not None:
        for item in held.values():
            rewrite(item, renamer)
        return
    else:
        # Names of resources, versions and similar names.
        return
    held.clear()
    held.update(renamed)


def _path(text: str, renamer: Renamer) -> str:
    return "/".join(renamer.name(part) for part in text.split("/"))
