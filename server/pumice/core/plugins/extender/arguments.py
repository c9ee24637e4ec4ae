"""The arguments of extender."""

from __future__ import annotations

import re

from pumice.core.configuration import Arguments, Limit, boolean, duration, text, texts

_VERB = re.compile(r"extender\.(\w+)Verb")


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
    on_session_open = text(
        "extender.onSessionOpenVerb",
        "",
        "path that receives jobs, nodes and queues when a session opens",
    )
    on_session_close = text(
        "extender.onSessionCloseVerb", "", "path that is called when a session ends"
    )
    predicate = text("extender.predicateVerb", "", "path that says whether a pod may use a node")
    prioritize = text("extender.prioritizeVerb", "", "path that scores nodes")
    preemptable = text(
        "extender.preemptableVerb", "", "path that says which pods preempt may evict"
    )
    reclaimable = text(
        "extender.reclaimableVerb", "", "path that says which pods reclaim may evict"
    )
    queue_overused = text(
        "extender.queueOverusedVerb", "", "path that says whether a queue has reached its share"
    )
    job_enqueueable = text(
        "extender.jobEnqueueableVerb", "", "path that says whether a job is admitted"
    )
    job_enqueued = text("extender.jobEnqueuedVerb", "", "path that receives admitted jobs")
    job_ready = text(
        "extender.jobReadyVerb", "", "path that says whether enough pods of a job are placed"
    )
    allocate = text(
        "extender.allocateFuncVerb", "", "path that says whether a placement is allowed"
    )
    deallocate = text(
        "extender.deallocateFuncVerb", "", "path that receives pods whose placement ends"
    )

    def verbs(self) -> dict[str, str]:
        """The paths that are given, by the point at which they are called."""
        return {
            found[1]: path
            for key, value in self.items()
            if (found := _VERB.fullmatch(key)) and (path := str(value).strip("/"))
        }
