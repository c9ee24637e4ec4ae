"""The part of an object that identifies it."""

from typing import Final

import msgspec


class Owner(msgspec.Struct, gc=False):
    """The owner of an object."""

    name: str = ""


class HeadMetadata(msgspec.Struct, rename="camel", gc=False):
    """The part of an object's metadata that identifies it."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    deletion_timestamp: str | None = None
    owner_references: list[Owner] | None = None


class Head(msgspec.Struct, gc=False):
    """The part of an object that a reflector needs."""

    metadata: HeadMetadata = msgspec.field(default_factory=HeadMetadata)


HEAD: Final = msgspec.json.Decoder(Head)
# Errors of decoders: invalid JSON, invalid UTF-8, and too many levels.
UNREADABLE: Final = (ValueError, RecursionError)
