"""Jobs of random odd values: every one settles, whatever its pods do."""

import random
from typing import Any

import pytest

from tests.adapters.kubernetes.fake_api import Object
from tests.controllers.jobs import job, task
from tests.controllers.model import Model

NUMBERS = [-(2**31), -1, 0, 1, 2, 3, 50, 2**31 - 1]
NAMES = ["", "w", "w", "a" * 63, "b" * 253, "A_b", "x.y", "-", "w-0", "0"]
ACTIONS = [
    "RestartJob", "AbortJob", "RestartTask", "RestartPod", "TerminateJob", "CompleteJob",
    "RestartPartition", "unknown",
]  # fmt: skip
EVENTS = [
    "PodFailed", "*", "PodEvicted", "TaskCompleted", "TaskFailed", "PodPending", "Unknown", "odd",
]  # fmt: skip
TIMEOUTS = ["0s", "-5m", "1h", "x", "", "9999999h", "1e3s"]
PLUGINS = ["svc", "ssh", "env", "pytorch", "tensorflow", "mpi", "ray", "hcclrank", "unknown"]
ARGUMENTS = ["--x=1", "--no-root", "--port=99999", "--port=x", "--master=w", "--worker=w", "'"]
TEMPLATES: list[Object] = [
    {},
    {"spec": {}},
    {"spec": {"containers": []}},
    {"metadata": {"labels": {"a": "b"}, "annotations": None}},
    *(
        {"spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": cpu}}}]}}
        for cpu in ("-1", "1e400", "x", "1Ei", "")
    ),
]


class Odd:
    """Random parts of a Job."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)

    def sometimes(self, share: float, name: str, value: Any) -> Object:
        return {name: value} if self.rng.random() < share else {}

    def policy(self) -> Object:
        choice = self.rng.choice
        return {
            "action": choice(ACTIONS),
            "event": choice(EVENTS),
            **self.sometimes(0.3, "timeout", choice(TIMEOUTS)),
            **self.sometimes(0.2, "exitCode", choice(NUMBERS)),
        }

    def task(self) -> Object:
        choice = self.rng.choice
        names = [choice(NAMES) for _ in range(self.rng.randrange(3))]
        partitions = {
            "totalPartitions": choice(NUMBERS),
            "partitionSize": choice(NUMBERS),
            "minPartitions": choice(NUMBERS),
        }
        return {
            **task(choice(NAMES), choice([-1, 0, 1, 2, 3])),
            **self.sometimes(0.4, "minAvailable", choice(NUMBERS)),
            **self.sometimes(0.4, "maxRetry", choice(NUMBERS)),
            **self.sometimes(0.3, "dependsOn", {"name": names, "iteration": choice(["", "any"])}),
            **self.sometimes(0.3, "partitionPolicy", partitions),
            **self.sometimes(0.3, "policies", [self.policy()]),
            **self.sometimes(0.2, "template", choice(TEMPLATES)),
        }

    def job(self) -> Object:
        choice = self.rng.choice
        plugins = {name: [choice(ARGUMENTS)] for name in self.rng.sample(PLUGINS, 2)}
        volume: Object = {
            "mountPath": choice(["", "/a"]),
            "volumeClaimName": choice(["", "c"]),
            "volumeClaim": choice([None, {}]),
        }
        spec = {
            name: choice(NUMBERS)
            for name in ("minAvailable", "maxRetry", "ttlSecondsAfterFinished", "minSuccess")
            if self.rng.random() < 0.4
        }
        return job(
            "job",
            *(self.task() for _ in range(self.rng.randrange(1, 4))),
            **spec,
            **self.sometimes(0.3, "policies", [self.policy(), self.policy()]),
            **self.sometimes(0.3, "plugins", plugins),
            **self.sometimes(0.2, "volumes", [volume]),
        )

    def change_pods(self, model: Model) -> None:
        choice = self.rng.choice
        for name, body in list(model.pods().items()):
            if "deletionTimestamp" in body["metadata"] or self.rng.random() < 0.1:
                model.remove("pods", name)
            else:
                phase = choice(["Pending", "Running", "Failed", "Succeeded"])
                model.set_phase(name, phase, choice([0, 1, 137]))


@pytest.mark.parametrize("first", range(0, 200, 20))
def test_odd_jobs_settle(first: int) -> None:
    for seed in range(first, first + 20):
        odd = Odd(seed)
        model = Model(odd.job())
        for _ in range(12):
            model.settle()
            model.admit()
            model.settle()
            odd.change_pods(model)
            if odd.rng.random() < 0.3:
                model.now_ms += odd.rng.choice([1000, 10**7])
            if odd.rng.random() < 0.2:
                model.restart()


def test_a_negative_number_of_replicas_counts_as_none() -> None:
    """Otherwise the conditions of Pending and of Running hold at once, and the phase changes for ever."""
    model = Model(job("job", task("a", -1, minAvailable=0), task("b", 2, minAvailable=0)))
    model.settle()
    model.admit()
    model.settle()
    assert model.phase == "Running"
    assert sorted(model.pods()) == ["job-b-0", "job-b-1"]
