"""Concurrent what-if runs, in processes."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from contextlib import contextmanager
from pathlib import Path

from pumice.evaluation.candidate import Candidate
from pumice.evaluation.whatif import Options, WhatIf, what_if

Judge = Callable[[Sequence[Candidate]], list[WhatIf]]


def core_count() -> int:
    """The number of CPUs that this process may use."""
    return len(os.sched_getaffinity(0))


@contextmanager
def judge(paths: Sequence[Path], options: Options, processes: int | None = None) -> Iterator[Judge]:
    """Yields a function that runs candidates over recordings, and returns results in their order.

    With one process, or for a single candidate, it runs in this process.
    """
    count = processes or core_count()
    if count < 2:
        yield lambda candidates: [what_if(paths, one, options) for one in candidates]
        return
    # A forked process would inherit the threads of libraries in an unknown state.
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(count, mp_context=context) as pool:
        try:
            yield lambda candidates: _all(pool, paths, candidates, options)
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def _all(
    pool: ProcessPoolExecutor,
    paths: Sequence[Path],
    candidates: Sequence[Candidate],
    options: Options,
) -> list[WhatIf]:
    if len(candidates) == 1:
        return [what_if(paths, candidates[0], options)]
    runs: list[Future[WhatIf]] = [
        pool.submit(what_if, paths, candidate, options) for candidate in candidates
    ]
    pending = set(runs)
    while pending:
        done, pending = wait(pending, return_when=FIRST_COMPLETED)
        for run in done:
            # The first error ends all runs.
            run.result()
    return [run.result() for run in runs]
