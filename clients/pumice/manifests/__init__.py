"""Translates Kubernetes JSON and YAML into messages of the protocol.

``translate`` translates one manifest, ``translate_all`` files and streams, and ``translate_texts``
texts, with the pods of workloads. ``decode`` and ``decode_pod`` read the raw JSON of an API server.
No function uses the network or a clock.
"""

from pumice.manifests.documents import Note
from pumice.manifests.errors import ManifestError, TooManyObjectsError
from pumice.manifests.translation import (
    IgnoredObject,
    Translation,
    decode,
    decode_pod,
    translate,
    translate_all,
    translate_documents,
    translate_texts,
)

__all__ = [
    "IgnoredObject",
    "ManifestError",
    "Note",
    "TooManyObjectsError",
    "Translation",
    "decode",
    "decode_pod",
    "translate",
    "translate_all",
    "translate_documents",
    "translate_texts",
]
