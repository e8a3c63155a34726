"""Names: duplicates name both sides, plugins can be left out, and a second registration is not an accident."""

from __future__ import annotations

import pytest

from fieldbench.errors import RequestError
from fieldbench.registry import Registry, Sources


def test_a_duplicate_names_both_distributions_and_serves_neither(install, working) -> None:
    install("first-package", working("twin"))
    install("second-package", working("twin"), version="2.0")
    registry = Registry(Sources())
    with pytest.raises(RequestError) as raised:
        registry.method("twin")
    for words in ("first-package 1.0", "second-package 2.0", "--no-plugin first-package", "--no-plugin second-package"):
        assert words in str(raised.value)
    assert "twin" not in registry.entries("method")
    (broken,) = registry.broken
    assert "first-package 1.0" in broken.reason
    assert "second-package 2.0" in broken.reason


@pytest.mark.parametrize("left_out", ["first-package", "second-package"])
def test_leaving_one_twin_out_serves_the_other(left_out, install, working) -> None:
    install("first-package", working("twin"))
    install("second-package", working("twin"))
    registry = Registry(Sources(blocked=frozenset({left_out})))
    assert registry.broken == []
    other = {"first-package": "second-package", "second-package": "first-package"}[left_out]
    assert registry.find("method", "twin").source.label == other


def test_three_of_one_name(install, working) -> None:
    for name in ("a-package", "b-package", "c-package"):
        install(name, working("twin"))
    registry = Registry(Sources())
    assert "twin" not in registry.entries("method")
    assert len(registry.broken) == 2
    with pytest.raises(RequestError, match="claimed by both"):
        registry.method("twin")


def test_a_stranger_cannot_take_the_place_of_a_built_in_plugin(install, working) -> None:
    install("stranger", working("strange"), entry_point="methods")
    registry = Registry(Sources())
    assert registry.find("method", "nearest").source.label == "fieldbench-completion"
    (broken,) = registry.broken
    assert broken.name == "methods"
    assert "stranger 1.0" in broken.reason
    assert "fieldbench" in broken.reason
    assert "rename one" in broken.reason


def test_a_method_and_a_dataset_may_share_a_name(write, working) -> None:
    registry = Registry(Sources(files=(write("mine.py", working("gaussian")),)))
    assert registry.broken == []
    assert registry.noise("gaussian").name == registry.method("gaussian").name


@pytest.mark.parametrize("name", ["mine", "average"])
def test_a_file_or_its_method_can_be_left_out(name, write, working) -> None:
    path = write("mine.py", working("average"))
    assert "average" in Registry(Sources(files=(path,))).entries("method")
    assert "average" not in Registry(Sources(files=(path,), blocked=frozenset({name}))).entries("method")


def test_a_broken_plugin_can_be_left_out(install) -> None:
    install("bad-package", "import no_such_module_xyz")
    assert Registry(Sources(blocked=frozenset({"bad-package"}), strict=True)).broken == []


def test_leaving_out_what_is_not_there_is_a_mistake() -> None:
    with pytest.raises(RequestError, match=r"--no-plugin nearst: .* did you mean 'nearest'"):
        Registry(Sources(blocked=frozenset({"nearst"})))


def test_a_class_registered_twice_by_its_own_plugin_counts_once(write, working) -> None:
    source = working("good").replace("return [Mean]", "return [Mean, Mean]")
    registry = Registry(Sources(files=(write("good.py", source),)))
    assert registry.broken == []
    assert "good" in registry.entries("method")


def test_a_hook_need_not_be_a_plain_function(write, working) -> None:
    source = working("good").replace(
        "@fieldbench.hookimpl\ndef fieldbench_register_methods():\n    return [Mean]",
        "fieldbench_register_methods = fieldbench.hookimpl(lambda: [Mean])",
    )
    registry = Registry(Sources(files=(write("good.py", source),)))
    assert registry.broken == []
    assert "good" in registry.entries("method")
