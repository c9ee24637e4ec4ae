"""Plugins of other packages: found by entry point, and refused by name where they do not fit."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

from pumice.core.configuration import read_configuration
from pumice.core.errors import ConfigurationError
from pumice.core.registry import (
    BUILT_IN_PLUGINS,
    PluginRefusedError,
    Registry,
)
from pumice.server.plugins import GROUP, discover, installed_registry

GOOD = """
class Plugin:
    name = "{name}"
    api = 1

    def __init__(self, options):
        pass

    def open(self, session):
        pass
"""


class Site:
    """A folder of installed packages."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def install(self, package: str, source: str, *, plugin: str = "", value: str = "") -> None:
        """A package with one module, and one entry point if the plugin has a name."""
        module = package.replace("-", "_")
        (self.folder / f"{module}.py").write_text(source, encoding="utf-8")
        info = self.folder / f"{module}-1.0.dist-info"
        info.mkdir()
        metadata = f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n"
        (info / "METADATA").write_text(metadata, encoding="utf-8")
        points = f"[{GROUP}]\n{plugin} = {value or f'{module}:Plugin'}\n" if plugin else ""
        (info / "entry_points.txt").write_text(points, encoding="utf-8")


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    monkeypatch.syspath_prepend(str(tmp_path))
    installed_registry.cache_clear()
    yield Site(tmp_path)
    installed_registry.cache_clear()
    for name in [name for name in sys.modules if name.startswith("acme_")]:
        del sys.modules[name]


def test_a_plugin_is_found_by_its_entry_point(site: Site) -> None:
    site.install("acme-one", GOOD.format(name="one"), plugin="one")
    found = discover()
    assert [plugin.name for plugin in found.plugins] == ["one"]
    assert found.refused == ()
    assert "one" in found.registry().plugins
    assert not found.registry().is_built_in("one")


def test_a_configuration_may_name_it(site: Site) -> None:
    site.install("acme-one", GOOD.format(name="one"), plugin="one")
    data = {"actions": "allocate", "tiers": [{"plugins": [{"name": "one"}]}]}
    configuration = read_configuration(data, installed_registry().catalog())
    assert configuration.tiers[0][0].name == "one"


def test_without_packages_there_is_what_is_built_in() -> None:
    assert set(installed_registry().catalog().plugins) == {p.name for p in BUILT_IN_PLUGINS}


@pytest.mark.parametrize(
    ("api", "problem"),
    [
        ("api = 2", "declares api = 2; this engine supports api = 1"),
        ("api = '1'", "declares api = '1'; this engine supports api = 1"),
        ("api = True", "declares api = True; this engine supports api = 1"),
        ("pass", "declares no api; this engine supports api = 1"),
    ],
)
def test_another_version_of_the_interface_is_refused_by_name(
    site: Site, api: str, problem: str
) -> None:
    source = GOOD.format(name="one").replace("api = 1", api)
    site.install("acme-one", source, plugin="one")
    found = discover()
    assert found.plugins == ()
    assert [str(bad) for bad in found.refused] == [f"plugin one of package acme-one 1.0: {problem}"]


def test_a_name_that_is_built_in_is_taken(site: Site) -> None:
    site.install("acme-one", GOOD.format(name="gang"), plugin="gang")
    found = discover()
    assert found.plugins == ()
    assert "taken by pumice.core.plugins.gang.GangPlugin" in found.refused[0].problem
    assert found.registry().is_built_in("gang")


def test_of_two_packages_the_one_whose_name_sorts_first_has_the_name(site: Site) -> None:
    site.install("acme-two", GOOD.format(name="same"), plugin="same")
    site.install("acme-one", GOOD.format(name="same"), plugin="same")
    found = discover()
    assert [plugin.__module__ for plugin in found.plugins] == ["acme_one"]
    assert [(bad.package, bad.problem) for bad in found.refused] == [
        ("acme-two 1.0", "has a name that is taken by acme_one.Plugin; give it another")
    ]


def test_a_package_that_is_on_the_path_twice_counts_once(site: Site) -> None:
    site.install("acme-one", GOOD.format(name="one"), plugin="one")
    twice = [EntryPoint("one", "acme_one:Plugin", GROUP)] * 2
    assert [plugin.name for plugin in discover(twice).plugins] == ["one"]


@pytest.mark.parametrize(
    ("source", "problem"),
    [
        ("import no_such_module", "ModuleNotFoundError: No module named 'no_such_module'"),
        ("1/0", "ZeroDivisionError: division by zero"),
        ("raise SystemExit('no licence')", "SystemExit: no licence"),
        ("def f(:", "SyntaxError"),
        ("x = 1", "AttributeError"),
    ],
)
def test_a_package_that_cannot_be_imported_does_not_stop_the_others(
    site: Site, source: str, problem: str
) -> None:
    site.install("acme-bad", source, plugin="bad")
    site.install("acme-one", GOOD.format(name="one"), plugin="one")
    found = discover()
    assert [plugin.name for plugin in found.plugins] == ["one"]
    assert [bad.name for bad in found.refused] == ["bad"]
    assert found.refused[0].problem.startswith("cannot be imported from acme_bad:Plugin: ")
    assert problem in found.refused[0].problem


def test_what_is_installed_is_looked_for_once_in_a_process(site: Site) -> None:
    registry = installed_registry()
    site.install("acme-one", GOOD.format(name="one"), plugin="one")
    assert installed_registry() is registry
    assert "one" not in registry.plugins


def test_a_configuration_that_names_a_refused_plugin_is_told_why(
    site: Site, caplog: pytest.LogCaptureFixture
) -> None:
    site.install("acme-bad", "1/0", plugin="bad")
    registry = installed_registry()
    assert "plugin bad of package acme-bad 1.0: cannot be imported" in caplog.text
    data = {"actions": "allocate", "tiers": [{"plugins": [{"name": "bad"}]}]}
    with pytest.raises(ConfigurationError, match="is installed but cannot be imported"):
        read_configuration(data, registry.catalog())


def test_entry_point_and_plugin_have_one_name(site: Site) -> None:
    site.install("acme-one", GOOD.format(name="uno"), plugin="one")
    assert [bad.problem for bad in discover().refused] == [
        "has the name 'uno', which differs from the name of the entry point"
    ]


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        ('name = "one"', "pass", "has no valid name: letters, digits, -, _ and . are allowed"),
        ('name = "one"', 'name = ""', "has no valid name: letters, digits, -, _ and . are allowed"),
        (
            'name = "one"',
            'name = "one, two"',
            "has no valid name: letters, digits, -, _ and . are allowed",
        ),
        ("def open", "def opened", "has no method open(session)"),
        (
            "api = 1",
            "api = 1\n    arguments = {}",
            "has arguments that are not a subclass of Arguments",
        ),
    ],
)
def test_a_class_that_is_no_plugin_is_refused(site: Site, old: str, new: str, problem: str) -> None:
    site.install("acme-one", GOOD.format(name="one").replace(old, new), plugin="one")
    assert [bad.problem for bad in discover().refused] == [problem]


def test_an_entry_point_that_is_no_class_is_refused(site: Site) -> None:
    site.install("acme-one", "Plugin = 7", plugin="one")
    assert [bad.problem for bad in discover().refused] == ["is not a class"]


def test_the_registry_itself_refuses_what_does_not_fit() -> None:
    members = {"name": "one", "api": 1, "open": lambda self, session: None}
    good = type("Good", (), members)
    assert "one" in Registry([good]).plugins
    with pytest.raises(PluginRefusedError, match="plugin one declares api = 9"):
        Registry([type("Newer", (), {**members, "api": 9})])
    with pytest.raises(PluginRefusedError, match="has a name that is taken by"):
        Registry([good, good])
    with pytest.raises(PluginRefusedError):
        Registry([type("Empty", (), {})])
