"""The repository as the architecture tests see it."""

from collections.abc import Iterator
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]
SOURCE_ROOTS = tuple(
    REPOSITORY / name for name in ("proto", "server", "adapters", "clients", "bench")
)
NAMESPACES = tuple(root / "pumice" for root in SOURCE_ROOTS)
GENERATED = ("_pb2.py", "_pb2.pyi", "_pb2_grpc.py", "_pb2_grpc.pyi")


def python_files(*folders: Path) -> Iterator[Path]:
    """Every Python file of the folders that a person wrote, in a fixed order."""
    for folder in folders:
        for path in sorted(folder.rglob("*.py")):
            if "__pycache__" not in path.parts and not path.name.endswith(GENERATED):
                yield path


def packages() -> Iterator[Path]:
    """Every folder below a namespace root that holds Python, or holds one that does."""
    folders = {
        folder
        for namespace in NAMESPACES
        for path in namespace.rglob("*.py")
        if "__pycache__" not in path.parts
        for folder in path.parents
        if folder.is_relative_to(namespace) and folder != namespace
    }
    yield from sorted(folders)


def shown(path: Path) -> str:
    return path.relative_to(REPOSITORY).as_posix()
