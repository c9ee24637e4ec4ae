"""DifferenceKind two schedulers are said to have in common, case by case."""

from typing import Any

import pytest

from pumice.adapters.shadow.comparison import Comparison
from pumice.adapters.shadow.differences import Difference, DifferenceKind
from pumice.adapters.shadow.report import shown
from pumice.v1.condition_pb2 import CONDITION_STATUS_TRUE
from pumice.v1.decision_pb2 import Bind, Evict
from pumice.v1.pod_pb2 import Pod, PodCondition

WAIT = 3.0
EVICTED = PodCondition(
    type="DisruptionTarget", status=CONDITION_STATUS_TRUE, reason="PreemptionByScheduler"
)


class Case:
    """Two schedulers and a clock."""

    def __init__(self) -> None:
        self.told: list[Difference] = []
        self.comparison = Comparison(WAIT, self.told.append)
        self.now = 100.0

    def see(self, name: str, node: str = "", job: str = "g", **fields: Any) -> bool:
        pod = Pod(uid=name, namespace="ns", name=name, group_name=job, node_name=node, **fields)
        return self.comparison.seen(pod, self.now)

    def bind(self, name: str, node: str) -> float:
        order = Bind(uid=name, namespace="ns", name=name, node=node)
        return self.comparison.propose_bind(order, self.now)

    def evict(self, name: str, node: str = "n1") -> float:
        order = Evict(
            uid=name, namespace="ns", name=name, node=node, reason="preempt", for_job="ns/big"
        )
        return self.comparison.propose_eviction(order, self.now)

    def miss(self, name: str, *, compared: bool = True) -> None:
        self.now += WAIT
        self.comparison.overdue(name, self.now, compared=compared)

    def counts(self) -> dict[str, int]:
        tally = self.comparison.summary(self.now)
        named = {name: getattr(tally, name) for name in tally.__slots__}
        return {name: count for name, count in named.items() if count}

    def what(self) -> list[DifferenceKind]:
        return [difference.what for difference in self.told]


@pytest.fixture
def case() -> Case:
    made = Case()
    made.comparison.begin()
    return made


def test_equal_decisions_are_counted_and_not_told(case: Case) -> None:
    assert case.see("p")
    assert case.bind("p", "n1") == WAIT
    assert case.see("p", "n1")
    assert case.told == []
    assert case.counts() == {"pods_same_node": 1, "jobs_together": 1}
    assert case.comparison.summary(case.now).agreement_percent == 100


def test_another_node_is_told_with_both(case: Case) -> None:
    case.see("p")
    case.bind("p", "n1")
    case.see("p", "n2")
    (found,) = case.told
    assert found.shown("volcano") == "pod ns/p: volcano chose n2, pumice n1"
    assert case.counts() == {"pods_other_node": 1, "jobs_together": 1}
    tally = case.comparison.summary(case.now)
    assert (tally.agreement_percent, tally.start_agreement_percent) == (0, 100)


def test_a_bind_that_comes_before_ours_is_kept_from_the_core_until_it_has_decided(
    case: Case,
) -> None:
    case.see("p")
    assert not case.see("p", "n1")
    case.now += 1
    assert case.bind("p", "n1") == 0
    assert case.see("p", "n1")
    assert case.counts() == {"pods_same_node": 1, "jobs_together": 1}


def test_a_job_that_only_they_start_is_later_with_us(case: Case) -> None:
    for name in ("p", "q"):
        case.see(name)
    for name in ("p", "q"):
        assert not case.see(name, "n1")
    case.miss("p")
    case.comparison.overdue("q", case.now, compared=True)
    assert case.what() == [DifferenceKind.JOB_LATER, DifferenceKind.POD_ONLY_THEIRS]
    assert case.counts() == {"pods_only_theirs": 2, "jobs_later": 1}


def test_a_job_that_only_we_start_is_told_once_and_never_started_at_the_end(case: Case) -> None:
    case.see("p")
    for _ in range(3):
        assert case.bind("p", "n1") == WAIT
        case.now += WAIT
        # It stood its time: the core sees the pod waiting again.
        assert case.bind("p", "n1") == 0
    assert case.what() == [DifferenceKind.JOB_ONLY_OURS]
    assert case.counts() == {"pods_only_ours": 1, "jobs_never": 1}
    case.comparison.gone("p", case.now)
    assert case.counts() == {"pods_only_ours": 1, "jobs_never": 1}


def test_a_job_that_they_start_long_after_us_is_earlier_with_us(case: Case) -> None:
    case.see("p")
    case.bind("p", "n1")
    case.now += 10
    case.bind("p", "n1")
    case.bind("p", "n1")
    assert case.see("p", "n1")
    assert case.what() == [DifferenceKind.JOB_ONLY_OURS, DifferenceKind.JOB_EARLIER]
    assert case.told[-1].seconds == 10
    assert case.counts() == {"pods_same_node": 1, "jobs_earlier": 1}


def test_a_decision_that_fell_is_not_compared_with(case: Case) -> None:
    case.see("p")
    case.bind("p", "n1")
    case.now += WAIT
    case.bind("p", "n1")
    assert not case.see("p", "n2")
    assert case.bind("p", "n2") == 0
    assert case.counts() == {"pods_same_node": 1, "jobs_together": 1}


def test_nothing_is_said_of_what_no_core_could_decide_on(case: Case) -> None:
    case.see("p")
    case.see("p", "n1")
    case.miss("p", compared=False)
    assert case.see("born-bound", "n1", job="other")
    assert case.told == []
    assert case.counts() == {"pods_not_compared": 2}
    assert case.comparison.summary(case.now).agreement_percent is None


def test_what_was_there_before_is_not_compared() -> None:
    case = Case()
    case.see("p", "n1")
    case.see("q")
    case.comparison.begin()
    case.bind("q", "n2")
    assert case.see("q", "n2")
    # The job had begun before, so its start says nothing.
    assert case.counts() == {"pods_same_node": 1}


def test_evictions_by_both_agree(case: Case) -> None:
    case.see("p", "n1")
    assert case.evict("p") == WAIT
    assert case.see("p", "n1", terminating=True, conditions=[EVICTED])
    assert case.counts() == {"evictions_agreed": 1, "pods_not_compared": 1}
    assert case.told == []


def test_an_eviction_of_theirs_waits_for_ours(case: Case) -> None:
    case.see("p", "n1")
    assert not case.see("p", "n1", terminating=True, conditions=[EVICTED])
    case.miss("p")
    assert case.what() == [DifferenceKind.EVICTION_ONLY_THEIRS]
    assert case.counts()["evictions_only_theirs"] == 1


def test_an_eviction_of_ours_alone_is_told_with_its_reason(case: Case) -> None:
    case.see("p", "n1")
    case.evict("p")
    case.now += WAIT
    assert case.evict("p") == 0
    (found,) = case.told
    expected = "pod ns/p: pumice would evict it from n1 (preempt for ns/big), volcano does not"
    assert found.shown("volcano") == expected
    assert case.counts()["evictions_only_ours"] == 1


def test_a_deletion_by_its_owner_is_no_eviction(case: Case) -> None:
    case.see("p", "n1")
    assert case.see("p", "n1", terminating=True)
    assert "evictions_only_theirs" not in case.counts()


@pytest.mark.parametrize("what", DifferenceKind)
def test_every_difference_has_its_line(what: DifferenceKind) -> None:
    line = Difference(what, "ns/g", "ns/p", "n1", "n2", 4.0).shown("volcano")
    assert "volcano" in line
    assert "pumice" in line
    assert "ns/" in line


def test_the_summary_shows_all_counts(case: Case) -> None:
    case.see("p")
    case.bind("p", "n1")
    case.see("p", "n1")
    text = "\n".join(shown(case.comparison.summary(case.now), "volcano"))
    assert "100 % of all decisions were the same" in text
    assert "1 same node, 0 equivalent node, 0 other node" in text
