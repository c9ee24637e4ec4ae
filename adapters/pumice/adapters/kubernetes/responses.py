"""Lists and watch events of the API server, with encoded objects."""

from typing import Final

import msgspec


class Listing(msgspec.Struct, rename="camel"):
    """The metadata of a list."""

    resource_version: str = ""
    continue_: str | None = msgspec.field(default="", name="continue")


class Page(msgspec.Struct):
    """A page of a list."""

    kind: str = ""
    metadata: Listing = msgspec.field(default_factory=Listing)
    items: list[msgspec.Raw] | None = None


class WatchEvent(msgspec.Struct):
    """One line of a watch."""

    type: str
    object: msgspec.Raw


class ErrorObject(msgspec.Struct):
    """The object of a watch event of the type ERROR."""

    code: int = 500


PAGE: Final = msgspec.json.Decoder(Page)
WATCH_EVENT: Final = msgspec.json.Decoder(WatchEvent)
ERROR_OBJECT: Final = msgspec.json.Decoder(ErrorObject)
