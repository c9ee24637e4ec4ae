"""Translates Kubernetes JSON and YAML into messages of the protocol.

``translate`` takes one manifest, ``translate_all`` files and streams of them, ``decode`` and
``decode_pod`` the raw JSON of an API server. Nothing here touches a network or a clock.
"""

from pumice.manifests.errors import ManifestError
from pumice.manifests.translation import (
    IgnoredObject,
    Translation,
    decode,
    decode_pod,
    translate,
    translate_all,
    translate_documents,
)

__all__ = [
    "IgnoredObject",
    "ManifestError",
    "Translation",
    "decode",
    "decode_pod",
    "translate",
    "translate_all",
    "translate_documents",
]
