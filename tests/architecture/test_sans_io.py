"""Inside the core the linter knows no clock, no chance and no world."""

import ast
import subprocess
import sys

import pytest

from tests.architecture.tree import REPOSITORY, python_files, shown

BANNED = [
    "import time",
    "import random",
    "import threading",
    "import asyncio",
    "import logging",
    "import os",
    "import os.path",
    "import socket",
    "import subprocess",
    "from datetime import datetime\n\nNOW = datetime.now()",
    "import datetime\n\nNOW = datetime.datetime.now(datetime.UTC)",
    "import numpy as np\n\nDICE = np.random.default_rng(1)",
]
# The linter's ban does not reach names that need no import.
BANNED_BUILTINS = {
    "__import__",
    "breakpoint",
    "eval",
    "exec",
    "hash",
    "id",
    "input",
    "open",
    "print",
}


def lint(source: str, path: str) -> str:
    done = subprocess.run(
        [
            *(sys.executable, "-m", "ruff", "check", "--no-cache", "--select=TID251"),
            *("--output-format=concise", f"--stdin-filename={path}", "-"),
        ],
        input=source + "\n",
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    return done.stdout


@pytest.mark.parametrize("source", BANNED)
def test_the_world_is_banned_in_the_core(source: str) -> None:
    assert "TID251" in lint(source, "server/pumice/core/plugins/offence.py")


def test_the_world_is_allowed_around_the_core() -> None:
    assert "TID251" not in lint("\n".join(BANNED), "server/pumice/server/offence.py")


def test_values_are_allowed_in_the_core() -> None:
    source = "import numpy as np\nfrom datetime import datetime, timedelta\n\nROW = np.zeros(3)"
    assert "TID251" not in lint(source, "server/pumice/core/model/row.py")


def calls_of_banned_builtins(tree: ast.AST) -> list[ast.Name]:
    """Banned calls, but for hashes inside ``__hash__``: those only find a value again."""
    allowed = {
        id(node)
        for function in ast.walk(tree)
        if isinstance(function, ast.FunctionDef) and function.name == "__hash__"
        for node in ast.walk(function)
        if isinstance(node, ast.Name) and node.id == "hash"
    }
    return [
        node.func
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
        if node.func.id in BANNED_BUILTINS and id(node.func) not in allowed
    ]


def test_the_core_calls_no_builtin_that_touches_the_world_or_varies_by_process() -> None:
    offences = [
        f"{shown(path)}:{call.lineno}: {call.id}"
        for path in python_files(REPOSITORY / "server" / "pumice" / "core")
        for call in calls_of_banned_builtins(ast.parse(path.read_text(encoding="utf-8")))
    ]
    assert offences == []
