"""Shared by all tests: the option to rewrite golden files, and settings of hypothesis."""

import pytest
from hypothesis import HealthCheck, Phase, settings
from xdist.remote import Producer  # type: ignore[import-untyped]
from xdist.scheduler import LoadScopeScheduling  # type: ignore[import-untyped]

# Machines are shared and slow at times: a deadline would fail for reasons that are not ours.
settings.register_profile(
    "pumice",
    deadline=None,
    derandomize=True,
    database=None,
    # Explaining traces every line, which takes longer than finding.
    phases=[phase for phase in Phase if phase is not Phase.explain],
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile("explore", settings.get_profile("pumice"), derandomize=False)
settings.load_profile("pumice")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--rewrite",
        action="store_true",
        help="write what was decided into the golden files (.case, .jsonl) instead of comparing",
    )


# Tests that share something costly: a control plane, an image.
_ON_ONE_WORKER = ("tests/e2e/", "tests/packaging/test_image_build.py")


class OneControlPlane(LoadScopeScheduling):  # type: ignore[misc]
    """Distributes tests one by one, but those that share an expensive fixture to one worker."""

    def _split_scope(self, nodeid: str) -> str:
        shared = (start for start in _ON_ONE_WORKER if nodeid.startswith(start))
        return next(shared, nodeid)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> OneControlPlane:
    return OneControlPlane(config, log)


@pytest.fixture
def rewrite(request: pytest.FixtureRequest) -> bool:
    return bool(request.config.getoption("--rewrite"))
