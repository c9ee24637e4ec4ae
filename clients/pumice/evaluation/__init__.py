"""Evaluation of scheduling policies: what-if runs of recordings, their figures and verdicts."""

from pumice.evaluation.candidate import Candidate, CandidateError
from pumice.evaluation.faults import Fault, fault_text
from pumice.evaluation.figures import Figures, Percentiles
from pumice.evaluation.goals import GoalResult, UnknownGoalError, Verdict
from pumice.evaluation.job_results import JobResult, JobState
from pumice.evaluation.overrides import OverrideError, Overrides
from pumice.evaluation.whatif import Options, WhatIf, what_if

__all__ = [
    "Candidate",
    "CandidateError",
    "Fault",
    "Figures",
    "GoalResult",
    "JobResult",
    "JobState",
    "Options",
    "OverrideError",
    "Overrides",
    "Percentiles",
    "UnknownGoalError",
    "Verdict",
    "WhatIf",
    "fault_text",
    "what_if",
]
