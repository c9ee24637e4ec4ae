"""``pumice replay REC --session N --export-scenario FILE``: a recorded session as a scenario file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from google.protobuf import json_format

from pumice.cli.simulation.reports import clock
from pumice.cli.simulation.runs import run
from pumice.cli.simulation.scenarios import read_scenario
from pumice.cli.simulation.verdicts import difference
from pumice.recordings import Recording
from pumice.server.local import Excerpt, excerpt


def export_scenario(recording: Recording, session: int, path: Path) -> str:
    """Writes the file; returns a warning if its decisions differ from the recorded ones."""
    found = excerpt(recording, session)
    body = _body(recording, found)
    scenario = read_scenario(body, path.name)
    outcome = run(scenario, found.now_ns).outcomes[0]
    body["expect"] = [
        {
            "binds": {_pod(d.bind): d.bind.node for d in found.decisions if d.HasField("bind")},
            "evicts": sorted(_pod(d.evict) for d in found.decisions if d.HasField("evict")),
            "podgroups": dict(outcome.phases),
        }
    ]
    path.write_text(json.dumps(body, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    apart = difference(read_scenario(body, path.name), [outcome])
    if apart is None:
        return ""
    return f"its decisions differ from the recorded ones, because the core's memory is missing: {apart}"


def _body(recording: Recording, found: Excerpt) -> dict[str, Any]:
    return {
        "name": f"{recording.header.cluster}-session-{found.session}",
        "family": "recording",
        "cycles": 1,
        "now": clock(found.now_ns),
        "conf": found.configuration.scheduler_conf,
        "wire": [
            json_format.MessageToDict(held, preserving_proto_field_name=True)
            for held in found.objects
        ],
    }


def _pod(order: Any) -> str:
    return f"{order.namespace}/{order.name}"
