"""Plans of reconcile functions, and the acts on the API server that plans consist of."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import TypeAlias

from pumice.adapters.kubernetes.resources import Resource
from pumice.adapters.kubernetes.session import MERGE
from pumice.controllers.runtime.objects import Manifest, Metadata


@dataclass(frozen=True, slots=True)
class Reference:
    """The object that an event is about."""

    resource: Resource
    namespace: str
    name: str
    uid: str

    @classmethod
    def of(cls, resource: Resource, metadata: Metadata) -> "Reference":
        return cls(resource, metadata.namespace, metadata.name, metadata.uid)


@dataclass(frozen=True, slots=True)
class Emit:
    """Writes an event. The loop does not wait for it; an event that the API server refuses is dropped."""

    about: Reference
    reason: str
    message: str
    warning: bool = False


@dataclass(frozen=True, slots=True)
class Create:
    """Creates an object. If the object exists, it stays unchanged, and the key is retried."""

    resource: Resource
    body: Manifest
    # The event when the API server refuses; the text of the refusal is appended to its message.
    on_refusal: Emit | None = None
    # Whether an existing object is no failure, unless an earlier owner of the same name owns it.
    may_exist: bool = False
    # Whether labels and data are written into an existing object of the same owner.
    takes_over: bool = False
    # Whether the API server returns the whole object, because admission may change the spec that
    # controllers read. Otherwise it returns the metadata alone.
    reads_back: bool = False
    # Makes the whole body, if parts of it are random or slow to compute; called in a thread.
    complete: Callable[[], Manifest] | None = field(default=None, compare=False)
    # The name of creations of the same stage that the API server probably treats alike, such as those of
    # the pods of a task. After some refusals in a row, the others are left for the next reconcile.
    like: str = ""


@dataclass(frozen=True, slots=True)
class Patch:
    """Patches the object with this uid; with a version, only if the object still has that version."""

    resource: Resource
    namespace: str
    name: str
    uid: str
    body: Manifest
    version: str = ""
    subresource: str = ""
    content_type: str = MERGE
    on_refusal: Emit | None = None

    @classmethod
    def of(
        cls,
        resource: Resource,
        metadata: Metadata,
        body: Manifest,
        *,
        version: str = "",
        on_refusal: Emit | None = None,
    ) -> "Patch":
        return cls(
            resource, *metadata.key, metadata.uid, body, version=version, on_refusal=on_refusal
        )

    @classmethod
    def of_status(
        cls, resource: Resource, metadata: Metadata, status: Manifest, *, version: str = ""
    ) -> "Patch":
        body = {"status": status}
        return cls(resource, *metadata.key, metadata.uid, body, version, subresource="status")


@dataclass(frozen=True, slots=True)
class Delete:
    """Deletes the object with this uid. A missing object is no failure."""

    resource: Resource
    namespace: str
    name: str
    # "": any object of the name.
    uid: str = ""
    # "": any version.
    version: str = ""
    # Deletes the object only if this owner controls it; "": any owner.
    owner_uid: str = ""
    # Background, Foreground or Orphan.
    propagation: str = "Background"
    on_refusal: Emit | None = None

    @classmethod
    def of(
        cls, resource: Resource, metadata: Metadata, *, on_refusal: Emit | None = None
    ) -> "Delete":
        return cls(resource, *metadata.key, metadata.uid, on_refusal=on_refusal)


Write: TypeAlias = Create | Patch | Delete
Act: TypeAlias = Write | Emit


@dataclass(frozen=True, slots=True)
class Plan:
    """The result of a reconcile function.

    The acts of a stage are performed concurrently, the stages in order. When an act of a stage fails,
    later stages are skipped, and the key is reconciled again with backoff. The events of a stage are
    written after its other acts.
    """

    stages: tuple[tuple[Act, ...], ...] = ()
    # Reconcile again after this time, even if nothing changes.
    again_seconds: float | None = None
    # Why the key must be retried with backoff although no act failed; "": it need not be.
    problem: str = ""
    # Performed when a stage fails, so that at least the phase of the object is stored.
    on_failure: tuple[Act, ...] = ()

    @classmethod
    def of(cls, *stages: Iterable[Act], again_seconds: float | None = None) -> "Plan":
        """A plan of those stages that have acts."""
        return cls(tuple(filter(None, map(tuple, stages))), again_seconds)


NOTHING = Plan()
