"""What was decided once is decided again, bit for bit; ``pytest --rewrite`` writes it anew."""

import json
from pathlib import Path

import pytest

from tests import dsl

REPLAYS = sorted((Path(__file__).parent / "replays").glob("*.jsonl"))


@pytest.mark.parametrize("path", REPLAYS, ids=lambda path: path.stem)
def test_replay_is_identical(path: Path, rewrite: bool) -> None:
    header, *cycles = map(json.loads, path.read_text(encoding="utf-8").splitlines())
    engine = dsl.make_engine(header["actions"], header["plugins"])
    again = []
    for cycle in cycles:
        assert engine.apply(dsl.read_delta(kind, row) for kind, row in cycle["deltas"]) == ()
        decisions = [str(decision) for decision in engine.schedule(cycle["now_ns"]).decisions]
        again.append({**cycle, "decisions": decisions})
    if rewrite:
        text = "".join(f"{json.dumps(line)}\n" for line in (header, *again))
        path.write_text(text, encoding="utf-8")
        return
    assert [cycle["decisions"] for cycle in again] == [cycle["decisions"] for cycle in cycles]


def test_a_replay_has_something_of_everything() -> None:
    text = "".join(path.read_text(encoding="utf-8") for path in REPLAYS)
    assert len(REPLAYS) >= 2
    assert '"bind ' in text
    assert '"evict ' in text
    assert '["delete"' in text
