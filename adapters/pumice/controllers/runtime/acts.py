"""What a controller can ask for: the acts that the loop performs on the API server."""

from collections.abc import Callable
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
    """Writes an event. The loop does not wait for it, and an event that fails is dropped."""

    about: Reference
    reason: str
    message: str
    warning: bool = False


@dataclass(frozen=True, slots=True)
class Create:
    """Creates an object. An object that exists already is not changed, and the key is tried again."""

    resource: Resource
    body: Manifest
    # Event when the API server refuses; the refusal is added to its message.
    on_refusal: Emit | None = None
    # Whether it is right that the object exists already, unless an earlier owner of the same name has it.
    may_exist: bool = False
    # Whether labels and data are written into an object of the same owner that exists already.
    takes_over: bool = False
    # Whether the object is read back, since controllers follow its spec, which admission may change.
    # Of others the API server returns the metadata alone.
    reads_back: bool = False
    # Makes the whole body, with what is random or slow to compute; called in a thread.
    complete: Callable[[], Manifest] | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class Patch:
    """Changes an object of this uid; with a version, only if nobody else changed the object."""

    resource: Resource
    namespace: str
    name: str
    uid: str
    body: Manifest
    version: str = ""
    subresource: str = ""
    content_type: str = MERGE
    on_refusal: Emit | None = None


@dataclass(frozen=True, slots=True)
class Delete:
    """Deletes an object of this uid. An object that does not exist is no error."""

    resource: Resource
    namespace: str
    name: str
    # "": whichever object has the name.
    uid: str = ""
    # "": whatever its version is.
    version: str = ""
    # Deletes the object only if this owner controls it; "": whatever its owner is.
    owner_uid: str = ""
    # Background, Foreground or Orphan.
    propagation: str = "Background"
    on_refusal: Emit | None = None


Write: TypeAlias = Create | Patch | Delete
Act: TypeAlias = Write | Emit


@dataclass(frozen=True, slots=True)
class Plan:
    """What a reconcile function asks for.

    The acts of a stage are performed at once, the stages one after the other. When an act of a stage
    fails, the later stages are left out and the key is reconciled again, with growing delays. Events
    come after the writes of their stage.
    """

    stages: tuple[tuple[Act, ...], ...] = ()
    # Reconcile again after so many seconds, even if nothing changes.
    again_seconds: float | None = None
    # Why the key must be tried again, with growing delays; "": it need not be.
    problem: str = ""
    # Performed when a stage fails, so that an object says at least in which phase it is.
    on_failure: tuple[Act, ...] = ()


NOTHING = Plan()
