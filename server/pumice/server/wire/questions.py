"""Writes the questions of a session for extenders."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from google.protobuf.duration_pb2 import Duration

from pumice.core.decisions import Question
from pumice.v1 import cluster_service_pb2


def question_batches(
    questions: Iterable[Question], batch_bytes: int
) -> Iterator[cluster_service_pb2.QuestionBatch]:
    """The questions in batches. A question that is larger than a batch has its own batch."""
    batch, size = cluster_service_pb2.QuestionBatch(), 0
    for question in questions:
        length = len(question.body) + len(question.name) + len(question.url)
        if size and size + length > batch_bytes:
            yield batch
            batch, size = cluster_service_pb2.QuestionBatch(), 0
        timeout = Duration()
        timeout.FromNanoseconds(question.timeout_ns)
        batch.questions.add(
            plugin=question.plugin,
            name=question.name,
            url=question.url,
            body=question.body,
            timeout=timeout,
            needs_answer=question.needs_answer,
        )
        size += length
    if size:
        yield batch
