"""``pumice record``: a recording of a running core."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Any

import click

from pumice.cli.errors import FAILED, InputProblem
from pumice.cli.queries.options import core, core_options
from pumice.cli.queries.tables import counted
from pumice.cli.replay.redacting import write_redacted
from pumice.cli.terminal import json_option, print_error, print_json
from pumice.client import RecordingEndedError, Stream
from pumice.recordings import SUFFIX, Recording, RecordingWriter
from pumice.v1.recording_pb2 import RecordingEntry


@click.command("record")
@click.argument("file", metavar="FILE", type=click.Path(dir_okay=False, path_type=Path))
@click.option(
    "--seconds",
    type=click.FloatRange(0, min_open=True),
    help="Duration of the recording; default: until Ctrl-C.",
)
@click.option(
    "--redact",
    "redacted",
    is_flag=True,
    help="Recording with other names of objects, in the same order.",
)
@core_options
@json_option
def record_command(
    file: Path, seconds: float | None, redacted: bool, as_json: bool, **connection: Any
) -> int:
    """Records a running core to FILE, for 'pumice replay'.

    The recording begins with a checkpoint of the cluster and ends with Ctrl-C. After a crash the
    file is complete up to its last second. The exit code is 1 if the core ended the recording.
    """
    if file.suffix != SUFFIX:
        raise click.UsageError(f"{file}: the name must end in {SUFFIX}")
    if file.exists():
        raise InputProblem(f"{file}: already exists; choose another name")
    if not file.parent.is_dir():
        raise InputProblem(f"{file.parent}: not a folder")
    plain = file.with_suffix(f".plain{SUFFIX}") if redacted else file
    with core(**connection) as client, client.record(seconds) as stream:
        signal.signal(signal.SIGTERM, lambda *_: stream.close())
        ended = _write(stream, plain)
    if redacted and plain.exists():
        try:
            write_redacted(plain, file)
        finally:
            plain.unlink()
    return _print_summary(file, ended, as_json=as_json)


def _write(stream: Stream[RecordingEntry], path: Path) -> RecordingEndedError | None:
    writer: RecordingWriter | None = None
    try:
        for entry in stream:
            writer = writer or RecordingWriter(path)
            writer.write(entry)
            if entry.HasField("session_end"):
                writer.flush()
    except RecordingEndedError as error:
        return error
    except KeyboardInterrupt:
        stream.close()
    finally:
        if writer is not None:
            writer.close()
    return None


def _print_summary(file: Path, ended: RecordingEndedError | None, *, as_json: bool) -> int:
    sessions = 0
    if file.exists():
        with Recording(file) as held:
            sessions = sum(e.HasField("session_end") for e in held.entries())
        size = file.stat().st_size
        if as_json:
            print_json({"file": str(file), "sessions": sessions, "bytes": size})
        else:
            click.echo(
                f"{file}: {counted(sessions, 'session')}, {size} bytes; 'pumice replay {file}'"
            )
    if ended is not None:
        print_error(f"the core ended the recording: {ended}; the file is complete up to then")
        return FAILED
    return 0
