"""Who may import whom: the contracts hold, and each of them bites."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.architecture.tree import REPOSITORY, SOURCE_ROOTS

# Runs import-linter on the source roots under the working directory instead of the installed ones.
LINT = """
import sys
from pathlib import Path
from importlinter.cli import lint_imports
installed = set(sys.argv[1:])
roots = [str(Path.cwd() / name) for name in ("proto", "server", "adapters", "clients", "bench")]
sys.path[:] = roots + [path for path in sys.path if path not in installed]
sys.exit(lint_imports(config_filename="pyproject.toml", no_cache=True))
"""

# Contract, a module that does not exist, and what it imports against the rules.
OFFENCES = [
    ("Packages are layered", "server/pumice/server/offence.py", "import pumice.client"),
    ("Packages are layered", "clients/pumice/manifests/offence.py", "import pumice.client"),
    ("Packages are layered", "clients/pumice/client/offence.py", "import pumice.adapters"),
    ("only over the wire", "clients/pumice/client/offence.py", "import pumice.core"),
    ("The core translates", "clients/pumice/client/offence.py", "import pumice.manifests"),
    ("Packages are layered", "clients/pumice/logs/offence.py", "import pumice.server"),
    ("Packages are layered", "clients/pumice/patterns/offence.py", "import pumice.core"),
    ("The core is sans-IO", "clients/pumice/patterns/offence.py", "import socket"),
    ("only over the wire", "adapters/pumice/adapters/runtime/offence.py", "import pumice.server"),
    ("only over the wire", "adapters/pumice/controllers/offence.py", "import pumice.server"),
    ("Packages are layered", "adapters/pumice/adapters/offence.py", "import pumice.controllers"),
    ("knows no Kubernetes", "server/pumice/server/offence.py", "import kubernetes"),
    ("commands and the core in", "clients/pumice/cli/offence.py", "import pumice.core.model"),
    ("commands and the core in", "clients/pumice/cli/offence.py", "import pumice.server.offence"),
    (
        "commands and the core in",
        "clients/pumice/evaluation/offence.py",
        "import pumice.core.model",
    ),
    ("The core is sans-IO", "server/pumice/core/offence.py", "import time"),
    ("The core is sans-IO", "server/pumice/core/model/offence.py", "import pumice.v1"),
    ("The core is layered", "server/pumice/core/model/offence.py", "import pumice.core.actions"),
    (
        "do not import each other",
        "server/pumice/core/plugins/offence.py",
        "import pumice.core.plugins.other",
    ),
    (
        "do not import each other",
        "server/pumice/core/actions/offence.py",
        "import pumice.core.plugins.other",
    ),
    (
        "imported as one package",
        "server/pumice/core/registry.py",
        "import pumice.core.kubebatch.other",
    ),
    (
        "The core is layered",
        "server/pumice/core/model/offence.py",
        "import pumice.core.kubebatch",
    ),
    (
        "The search for victims has one door",
        "server/pumice/core/actions/offence.py",
        "import pumice.core.session.evicting.other",
    ),
    ("One file knows", "adapters/pumice/adapters/simulated/offence.py", "import kubernetes"),
]


def lint(folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", LINT, *map(str, SOURCE_ROOTS)],
        cwd=folder,
        env={"COLUMNS": "200", "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )


def test_every_contract_holds() -> None:
    done = lint(REPOSITORY)
    assert done.returncode == 0, done.stdout + done.stderr


def skeleton(folder: Path) -> None:
    """The packages without their contents: packages only, so that one offence stands out."""
    shutil.copy(REPOSITORY / "pyproject.toml", folder)
    packages = [
        "proto/pumice/v1",
        "server/pumice/core/actions",
        "server/pumice/core/kubebatch",
        "server/pumice/core/model",
        "server/pumice/core/plugins",
        "server/pumice/core/session/evicting",
        "server/pumice/server",
        "adapters/pumice/adapters/runtime",
        "adapters/pumice/adapters/simulated",
        "adapters/pumice/adapters/kubernetes",
        "adapters/pumice/controllers",
        "clients/pumice/manifests",
        "clients/pumice/client",
        "clients/pumice/recordings",
        "clients/pumice/evaluation",
        "clients/pumice/logs",
        "clients/pumice/patterns",
        "clients/pumice/testing",
        "clients/pumice/cli",
    ]
    for name in packages:
        package = folder / name
        package.mkdir(parents=True)
        while package.name != "pumice":
            (package / "__init__.py").touch()
            package = package.parent
    modules = ("server/offence", "server/local", "server/commands")
    for module in (
        *modules,
        "core/plugins/other",
        "core/kubebatch/other",
        "core/session/evicting/other",
    ):
        (folder / "server" / "pumice" / f"{module}.py").touch()


@pytest.mark.parametrize(("contract", "module", "statement"), OFFENCES)
def test_an_offence_breaks_its_contract(
    tmp_path: Path, contract: str, module: str, statement: str
) -> None:
    skeleton(tmp_path)
    (tmp_path / module).write_text(f"{statement}\n", encoding="utf-8")
    done = lint(tmp_path)
    broken = [line for line in done.stdout.splitlines() if line.endswith("BROKEN")]
    assert done.returncode == 1
    assert any(contract in line for line in broken), done.stdout + done.stderr


def test_what_the_contracts_allow_passes(tmp_path: Path) -> None:
    skeleton(tmp_path)
    allowed = {
        "clients/pumice/cli/main.py": "import pumice.server.local\nimport pumice.server.commands\n",
        "clients/pumice/testing/run.py": "import pumice.manifests\nimport pumice.server.local\n",
        "adapters/pumice/adapters/kubernetes/api.py": "import kubernetes.client\n",
        "adapters/pumice/adapters/simulated/world.py": "import pumice.client\nimport pumice.v1\n",
        "server/pumice/server/local.py": "import pumice.core.model\nimport pumice.v1\n",
        "server/pumice/core/model/names.py": "import pumice.patterns\n",
        "adapters/pumice/controllers/nodes.py": "import pumice.patterns\n",
        "server/pumice/core/registry.py": "import pumice.core.kubebatch\n",
        "server/pumice/core/actions/names.py": "import pumice.core.session.evicting\n",
        "server/pumice/core/engine.py": "import pumice.core.plugins.other\nimport numpy\n",
    }
    for module, text in allowed.items():
        (tmp_path / module).write_text(text, encoding="utf-8")
    done = lint(tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
