"""Compiles the kernel when the package is built.

The environment variable PUMICE_KERNEL says what happens where it cannot be compiled: ``optional``
(the default) leaves it out with a warning, and NumPy does its work more slowly; ``required`` fails
the build.
"""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
import sysconfig
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

KERNEL = "server/pumice/core/kernel"
CHOICES = ("optional", "required")
# One build serves every Python from the oldest supported one on.
LIBRARY = "_rows.abi3.so"


class KernelHook(BuildHookInterface[Any]):
    """Puts the compiled kernel beside its source and into the wheel."""

    PLUGIN_NAME = "custom"

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        del version
        if self.target_name != "wheel":
            return
        choice = os.environ.get("PUMICE_KERNEL") or "optional"
        if choice not in CHOICES:
            raise ValueError(f"PUMICE_KERNEL is {choice!r}; allowed: {', '.join(CHOICES)}")
        problem = compile_kernel(Path(self.root))
        if problem and choice == "required":
            raise RuntimeError(f"PUMICE_KERNEL is required: {problem}")
        if problem:
            self.app.display_warning(f"the kernel is left out: {problem}")
            return
        build_data["artifacts"].append(f"{KERNEL}/{LIBRARY}")
        build_data["pure_python"] = False
        platform = sysconfig.get_platform().replace("-", "_").replace(".", "_")
        build_data["tag"] = f"cp311-abi3-{platform}"


def compile_kernel(root: Path) -> str:
    """Returns why the kernel cannot be compiled; empty when it was compiled."""
    if sys.platform == "win32":
        return "it is not built on Windows"
    folder = root / KERNEL
    library = folder / LIBRARY
    compiler = shlex.split(sysconfig.get_config_var("CC") or "cc")
    # No contraction: the results must be NumPy's, to the last bit. Nobody reads errno or traps.
    flags = [
        "-O3",
        "-fPIC",
        "-shared",
        "-ffp-contract=off",
        "-fno-math-errno",
        "-fno-trapping-math",
    ]
    if sys.platform == "darwin":
        flags += ["-undefined", "dynamic_lookup"]
    include = f"-I{sysconfig.get_path('include')}"
    command = [*compiler, *flags, include, str(folder / "_rows.c"), "-o", str(library), "-lm"]
    try:
        library.unlink(missing_ok=True)
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except OSError as error:
        return f"it cannot be compiled here ({error})"
    said = done.stderr.strip().splitlines() or [f"the compiler ended with {done.returncode}"]
    return "" if done.returncode == 0 else said[0]


if __name__ == "__main__":
    sys.exit(compile_kernel(Path(__file__).parent) or 0)
