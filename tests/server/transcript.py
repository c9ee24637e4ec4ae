"""A conversation between an adapter and a core, for the page about the protocol.

python -m tests.server.transcript    prints what belongs in docs/protocol.md
"""

from __future__ import annotations

import asyncio
import re
import tempfile
import textwrap
from pathlib import Path
from typing import Any

from google.protobuf import text_format

from pumice.v1 import cluster_service_pb2, decision_pb2, object_pb2
from tests.server.running import (
    RunningCore,
    ScriptedAdapter,
    configuration,
    gang,
    node,
    outcome,
    queue,
    running_core,
)

_WIDTH = 110
# The kinds in a Welcome, which are many.
_KINDS = re.compile(r"((?: kinds: KIND_\w+){2})(?: kinds: KIND_\w+){4,}")


class Transcript:
    """Writes down what an adapter sends and gets."""

    def __init__(self, adapter: ScriptedAdapter, lines: list[str]) -> None:
        self._adapter = adapter
        self._lines = lines
        sent = adapter._call.write

        async def write(request: cluster_service_pb2.ConnectRequest) -> None:
            self._add("adapter", request)
            await sent(request)

        adapter._call.write = write
        read = adapter.read

        async def received() -> cluster_service_pb2.ConnectResponse | None:
            response = await read()
            if response is not None:
                self._add("core   ", response)
            return response

        adapter.read = received  # type: ignore[method-assign]

    def _add(self, who: str, message: Any) -> None:
        text = text_format.MessageToString(message, as_one_line=True, as_utf8=True).strip()
        text = _KINDS.sub(r"\1 …", text)
        self._lines += textwrap.wrap(
            f"{who}: {text}", _WIDTH, subsequent_indent=" " * 11, break_long_words=False
        )

    def say(self, text: str) -> None:
        self._lines.append(f"# {text}")


async def converse(core: RunningCore) -> list[str]:
    lines: list[str] = []
    adapter = core.adapter(
        cluster="production",
        adapter_id="adapter-1",
        incarnation="i-1",
        epoch=1_767_225_600_000,
        adapter_version="1.0",
        capabilities=[cluster_service_pb2.CAPABILITY_EVICT],
    )
    wire = Transcript(adapter, lines)
    wire.say("The adapter identifies itself. The core does not know this incarnation.")
    await adapter.connect()
    wire.say("All objects, between two markers. The end marker contains the digests.")
    await adapter.snapshot([queue(), node("n1")], configuration(source="ConfigMap ns/conf"))
    # The first session, which decides nothing, must not see the job.
    await core.session(1, "production")
    wire.say("A job of two pods appears.")
    await adapter.tell(*gang("job", 2))
    core.clock.advance(1)
    wire.say("A session ran: both pods are bound, as one gang. The PodGroup's new status follows.")
    decisions = await adapter.decisions()
    await adapter.next("status_batch")
    wire.say(
        "The adapter has bound both pods. It reports the outcomes and the new state of the pods."
    )
    await report(adapter, decisions)
    wire.say("The adapter sends its digests at intervals. The core does not respond if they agree.")
    await adapter.digest()
    wire.say("Here the adapter reports two nodes. The core requests that kind again.")
    adapter.sums.put(object_pb2.KIND_NODE, "node-n2", 99)
    await adapter.digest()
    await adapter.next("resync")
    adapter.sums.drop(object_pb2.KIND_NODE, "node-n2")
    await adapter.snapshot([node("n1")], kinds=[object_pb2.KIND_NODE])
    await resume(core, adapter, lines)
    return lines


async def report(adapter: ScriptedAdapter, decisions: list[decision_pb2.Decision]) -> None:
    done = [outcome(d.id, decision_pb2.OUTCOME_CODE_APPLIED) for d in decisions]
    pods = gang("job", 2)[1:]
    for held, decision in zip(pods, decisions, strict=True):
        held.pod.node_name = decision.bind.node
    await adapter.tell(*done, *pods)


async def resume(core: RunningCore, adapter: ScriptedAdapter, lines: list[str]) -> None:
    adapter.cut()
    again = ScriptedAdapter(core.channel(), cluster="production", incarnation="i-1")
    again.hello.CopyFrom(adapter.hello)
    again.hello.last_acknowledged_seq = adapter.seq
    again.hello.digests.extend(adapter.sums.write())
    wire = Transcript(again, lines)
    wire.say(
        "The stream breaks. The adapter connects again with its digests, and the stream resumes."
    )
    await again.connect()
    wire.say("Statuses that no upsert has confirmed are sent again.")
    await again.next("status_batch")
    wire.say("The core shuts down.")
    draining = asyncio.ensure_future(core.server._adapters.drain())
    await again.next("go_away")
    await draining


async def transcript() -> list[str]:
    with tempfile.TemporaryDirectory() as folder:
        async with running_core(Path(folder), core_id="core-1") as core:
            return await converse(core)


if __name__ == "__main__":
    print("\n".join(asyncio.run(transcript())))
