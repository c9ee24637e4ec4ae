"""A kernel compiled from another source is not used; this one is."""

from pathlib import Path

from pumice.core import kernel


def test_source_and_callers_agree_on_the_version() -> None:
    """Or else the kernel would never be used again."""
    source = Path(kernel.__file__).with_name("_rows.c").read_text(encoding="utf-8")
    assert f"#define VERSION {kernel.VERSION}\n" in source
