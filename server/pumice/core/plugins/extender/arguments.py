"""The arguments of extender."""

from __future__ import annotations

import re

from pumice.core.configuration import Argument, Arguments, Limit, boolean, duration, text, texts

_VERB = re.compile(r"extender\.(\w+)Verb")


def _verb(point: str, meaning: str) -> Argument[str]:
    return text(f"extender.{point}Verb", "", f"path that {meaning}")


class ExtenderArguments(Arguments):
    """Where the service is, and what it is asked."""

    url = text(
        "extender.urlPrefix",
        "",
        "address of the extender",
        Limit(pattern=r"https?://[^\s?#]+", form="an address such as http://host:port"),
    )
    timeout_ns = duration(
        "extender.httpTimeout", "1s", "time for one answer", Limit(above=0, at_most=60)
    )
    ignorable = boolean(
        "extender.ignorable", "continues without the extender when it fails", default=False
    )
    managed = texts(
        "extender.managedResources", "only pods that ask for one of these concern the extender"
    )
    on_session_open = _verb("onSessionOpen", "receives jobs, nodes and queues when a session opens")
    on_session_close = _verb("onSessionClose", "is called when a session ends")
    predicate = _verb("predicate", "says whether a pod may use a node")
    prioritize = _verb("prioritize", "scores nodes")
    preemptable = _verb("preemptable", "says which pods preempt may evict")
    reclaimable = _verb("reclaimable", "says which pods reclaim may evict")
    queue_overused = _verb("queueOverused", "says whether a queue has reached its share")
    job_enqueueable = _verb("jobEnqueueable", "says whether a job is admitted")
    job_enqueued = _verb("jobEnqueued", "receives admitted jobs")
    job_ready = _verb("jobReady", "says whether enough pods of a job are placed")
    allocate = _verb("allocateFunc", "says whether a placement is allowed")
    deallocate = _verb("deallocateFunc", "receives pods whose placement ends")

    def verbs(self) -> dict[str, str]:
        """The paths that are given, by the point at which they are called."""
        return {
            found[1]: path
            for key, value in self.items()
            if (found := _VERB.fullmatch(key)) and (path := str(value).strip("/"))
        }
