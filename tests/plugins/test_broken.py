"""Every kind of broken plugin: what is said about it, and that everything else keeps working."""

from __future__ import annotations

import os
import signal
import sys

import pytest

from fieldbench.errors import RequestError
from fieldbench.registry import PluginError, Registry, Sources

HOOK = """
import fieldbench

@fieldbench.hookimpl
def fieldbench_register_methods():
    return {returned}
"""

ABSTRACT = """
import fieldbench

class Lazy(fieldbench.Method):
    '''It completes nothing.'''
    name = "lazy"

@fieldbench.hookimpl
def fieldbench_register_methods():
    return [Lazy]
"""

#: Source text of a broken plugin, and what its reason must say, by what is wrong with it.
BROKEN = {
    "import error": ("import no_such_module_xyz", ["ModuleNotFoundError", "no_such_module_xyz"]),
    "syntax error": ("def broken(:\n", ["SyntaxError"]),
    "leaves the program": ("import sys\nsys.exit(3)", ["SystemExit: 3"]),
    "interrupts the program": ("raise KeyboardInterrupt", ["KeyboardInterrupt"]),
    "cannot say why": (
        "class Odd(Exception):\n    def __str__(self):\n        raise SystemExit(0)\nraise Odd",
        ["Odd"],
    ),
    "long error": ("raise ValueError('first line\\nsecond line')", ["ValueError: first line"]),
    "attribute without a type": (
        "import fieldbench\nclass Mine(fieldbench.Method):\n    name = 'mine'\n    steps = 3\n",
        ["steps = 3: plugins have no attribute steps; write a parameter as steps: TYPE = parameter(...)"],
    ),
    "hookless": ("x = 1", ["it has no hook", "fieldbench_register_methods", "@fieldbench.hookimpl"]),
    "misspelt hook": (
        "import fieldbench\n@fieldbench.hookimpl\ndef fieldbench_register_method():\n    return []\n",
        ["no hook 'fieldbench_register_method'", "did you mean 'fieldbench_register_methods'?"],
    ),
    "unmarked hook": (
        "def fieldbench_register_methods():\n    return []\n",
        ["fieldbench_register_methods is not marked", "@fieldbench.hookimpl"],
    ),
    "one hook of two unmarked": (
        HOOK.format(returned="[]") + "\ndef fieldbench_register_noises():\n    return []\n",
        ["fieldbench_register_noises is not marked"],
    ),
    "hook with an argument": (
        "import fieldbench\n@fieldbench.hookimpl\ndef fieldbench_register_methods(config):\n    return []\n",
        ["fieldbench_register_methods", "config"],
    ),
    "misspelt attribute": (
        HOOK.format(returned="[]") + "\nclass Sea(fieldbench.Dataset):\n    default_rate = (0.1,)\n",
        ["no attribute default_rate", "did you mean 'default_rates'?", "parameter(...)"],
    ),
    "newer interface": ("FIELDBENCH_API = 99\n" + HOOK.format(returned="[]"), ["plugin API 99", "has 1"]),
    "raising hook": (HOOK.format(returned="1 / 0"), ["fieldbench_register_methods: ZeroDivisionError"]),
    "hook that leaves": (HOOK.format(returned="exit(4)"), ["fieldbench_register_methods: SystemExit: 4"]),
    "hook that interrupts": (
        HOOK.format(returned="[]").replace("return []", "raise KeyboardInterrupt"),
        ["fieldbench_register_methods: KeyboardInterrupt"],
    ),
    "hook without return": (HOOK.format(returned="None"), ["returned None", "a list of classes"]),
    "one class, no list": (HOOK.format(returned="fieldbench.Method"), ["returned Method", "a list of classes"]),
    "no plugin class": (HOOK.format(returned="[dict]"), ["dict is not a class derived from fieldbench.Method"]),
    "instance": (HOOK.format(returned="[42]"), ["42 is not a class derived from fieldbench.Method"]),
    "other kind": (
        "from fieldbench.metric import RMSE\n" + HOOK.format(returned="[RMSE]"),
        ["RMSE is not a class derived from fieldbench.Method"],
    ),
    "abstract": (ABSTRACT, ["Lazy does not define complete"]),
    "no name": (ABSTRACT.replace('name = "lazy"', ""), ["Lazy needs a name", "not None"]),
    "bad name": (ABSTRACT.replace('"lazy"', '"Very Lazy"'), ["Lazy needs a name", "'Very Lazy'"]),
}


@pytest.mark.parametrize("what", BROKEN)
def test_a_broken_file_is_told_and_takes_nothing_with_it(what, write, working) -> None:
    source, words = BROKEN[what]
    registry = Registry(Sources(files=(write("bad.py", source), write("good.py", working("good")))))
    (broken,) = registry.broken
    assert broken.name == "bad"
    assert broken.source.label.endswith("bad.py")
    assert all(word in broken.reason for word in words), broken.reason
    assert "\n" not in broken.reason
    assert str(registry.method("good")) == "good"
    assert "nearest" in registry.entries("method")


@pytest.mark.parametrize("what", BROKEN)
def test_a_broken_package_is_told_and_takes_nothing_with_it(what, install, working) -> None:
    source, words = BROKEN[what]
    install("bad-package", source)
    install("good-package", working("good"))
    registry = Registry(Sources())
    (broken,) = registry.broken
    assert (broken.name, str(broken.source)) == ("bad-package", "bad-package 1.0")
    assert all(word in broken.reason for word in words), broken.reason
    assert str(registry.method("good")) == "good"
    assert "nearest" in registry.entries("method")


@pytest.mark.parametrize("what", BROKEN)
def test_the_strict_switch_makes_it_fatal(what, write, monkeypatch) -> None:
    source, words = BROKEN[what]
    monkeypatch.setenv("FIELDBENCH_STRICT_PLUGINS", "1")
    with pytest.raises(PluginError) as raised:
        Registry(Sources.from_environment(files=[write("bad.py", source)]))
    assert "'bad'" in str(raised.value)
    assert words[0] in str(raised.value)


def test_the_strict_switch_accepts_what_works(write, working, monkeypatch) -> None:
    monkeypatch.setenv("FIELDBENCH_STRICT_PLUGINS", "1")
    registry = Registry(Sources.from_environment(files=[write("good.py", working("good"))]))
    assert registry.sources.strict
    assert "good" in registry.entries("method")


def test_a_traceback_is_kept_whole(write) -> None:
    registry = Registry(Sources(files=(write("bad.py", "def inner():\n    import no_such_module_xyz\n\ninner()"),)))
    (broken,) = registry.broken
    assert "Traceback (most recent call last)" in broken.details
    assert "in inner" in broken.details
    assert broken.details.strip().endswith(broken.reason)


@pytest.mark.parametrize("asked", ["bad", "bad-method"])
def test_asking_for_what_it_might_bring_gives_the_reason_and_where_the_rest_is(asked, write) -> None:
    registry = Registry(Sources(files=(write("bad.py", "import no_such_module_xyz"),)))
    with pytest.raises(RequestError) as raised:
        registry.method(asked)
    message = str(raised.value)
    assert repr(asked) in message
    assert "ModuleNotFoundError: No module named 'no_such_module_xyz'" in message
    assert "`fieldbench plugins bad`" in message
    assert "\n" not in message


def test_asking_for_a_broken_class_by_its_own_name(write) -> None:
    registry = Registry(Sources(files=(write("bad.py", ABSTRACT),)))
    with pytest.raises(RequestError, match=r"method 'lazy': its plugin .* is broken: Lazy does not define complete"):
        registry.method("lazy")


def test_a_half_broken_plugin_keeps_its_other_half(write, working) -> None:
    source = working("good").replace("return [Mean]", "return [Mean, 42]")
    registry = Registry(Sources(files=(write("half.py", source),)))
    assert "good" in registry.entries("method")
    assert [item.reason for item in registry.broken] == ["42 is not a class derived from fieldbench.Method"]


@pytest.mark.parametrize(
    "oddity",
    [
        "def __dir__():\n    return [*globals(), 'plots']\n"
        "def __getattr__(name):\n    raise ImportError('plots needs bokeh')\n",
        "class Lazy:\n    def __getattr__(self, name):\n        raise RuntimeError('set up first')\nlazy = Lazy()\n",
        "from unittest.mock import MagicMock\nplt = MagicMock()\n",
    ],
    ids=["lazy module", "object that raises", "object that has everything"],
)
def test_what_else_lies_in_a_module_does_not_matter(oddity, write, working) -> None:
    registry = Registry(Sources(files=(write("odd.py", working("good") + oddity),)))
    assert registry.broken == []
    assert str(registry.method("good")) == "good"


METRIC = """
import fieldbench

class Needy(fieldbench.Metric):
    "It must be told its level."
    name = "needy"
    level: float = fieldbench.parameter(meaning="level")

    def score(self, estimate, truth, where, mask):
        return 1.0

@fieldbench.hookimpl
def fieldbench_register_metrics():
    return [Needy]
"""


def test_a_metric_that_cannot_be_made_is_told_and_left_out_of_runs(write) -> None:
    registry = Registry(Sources(files=(write("needy.py", METRIC),)))
    assert {"rmse"} <= {metric.name for metric in registry.metrics()}
    assert "needy" not in {metric.name for metric in registry.metrics()}
    (broken,) = registry.broken
    assert (broken.name, broken.brings) == ("needy", "needy")
    assert broken.reason.startswith("no run is scored by the metric 'needy': level of needy: field required")
    assert str(registry.metric("needy[level=2]")) == "needy[level=2.0]"


def test_a_class_that_raises_when_it_is_made_is_one_line(write, working) -> None:
    raising = "\n    def model_post_init(self, context):\n        import no_such_module_xyz\n"
    source = working("good").replace("    def complete", f"{raising}\n    def complete")
    registry = Registry(Sources(files=(write("late.py", source),)))
    with pytest.raises(RequestError, match="'good': good cannot be made: ModuleNotFoundError: No module named 'no_suc"):
        registry.method("good")


@pytest.mark.parametrize("raising", ["raise SystemExit(0)", "raise KeyboardInterrupt", "raise ValueError"])
def test_a_class_that_ends_what_makes_it_is_one_line(raising, write, working) -> None:
    source = working("good").replace(
        "    def complete", f"    def model_post_init(self, context):\n        {raising}\n\n    def complete"
    )
    registry = Registry(Sources(files=(write("late.py", source),)))
    with pytest.raises(RequestError, match=r"'good'.* of good: |'good': good cannot be made: "):
        registry.method("good")


MODIFIER = """
import fieldbench

class Odd(fieldbench.Modifier):
    "It gives no method."
    name = "odd"

    def modify(self, method):
        {body}

@fieldbench.hookimpl
def fieldbench_register_methods():
    return [Odd]
"""


@pytest.mark.parametrize("body", ["return None", "return 'nearest'", "raise SystemExit(0)", "raise KeyboardInterrupt"])
def test_a_modifier_that_gives_no_method_is_one_line(body, write) -> None:
    registry = Registry(Sources(files=(write("odd.py", MODIFIER.format(body=body)),)))
    with pytest.raises(RequestError, match=r"'nearest\+odd': modify\(\) of odd"):
        registry.method("nearest+odd")


def test_a_plugin_leaves_folder_streams_and_ctrl_c_as_they_were(write, working) -> None:
    before = os.getcwd(), sys.stdout, sys.stderr, signal.getsignal(signal.SIGINT)
    changes = (
        "import os, signal, sys\nos.chdir('/')\nsys.stdout = sys.stderr = None\nsignal.signal(2, signal.SIG_IGN)\n"
    )
    registry = Registry(Sources(files=(write("odd.py", working("good") + changes),)))
    assert registry.broken == []
    assert (os.getcwd(), sys.stdout, sys.stderr, signal.getsignal(signal.SIGINT)) == before


def test_what_a_plugin_puts_into_the_search_path_hides_nobodys_modules(write, working, monkeypatch) -> None:
    before = [*sys.path]
    monkeypatch.setattr(sys, "path", [*before])
    changes = "import sys\nsys.path[:] = ['/of/the/plugin', 5, *sys.path[1:]]\n"
    registry = Registry(Sources(files=(write("odd.py", working("good") + changes),)))
    assert registry.broken == []
    assert sys.path == [*before, "/of/the/plugin"]


def test_a_ctrl_c_while_a_plugin_is_loaded_is_the_users(write) -> None:
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored where tests run in the background
    try:
        with pytest.raises(KeyboardInterrupt):
            Registry(Sources(files=(write("slow.py", "import signal\nsignal.raise_signal(signal.SIGINT)"),)))
    finally:
        signal.signal(signal.SIGINT, before)


def test_a_file_edited_within_a_second_is_read_anew(write, working, monkeypatch) -> None:
    """Bytecode is cached by whole seconds and length, so both texts of this file look the same to the cache."""
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    for number in (1, 2):
        file = write("mine.py", working("mine") + f"\nNUMBER = {number}\n")
        os.utime(file, (1_700_000_000, 1_700_000_000))
        entry = Registry(Sources(files=(file,))).entries("method")["mine"]
        loaded = sys.modules[entry.cls.__module__].NUMBER
        assert loaded == number


def test_only_files_of_a_folder_are_loaded(tmp_path, write, working) -> None:
    write("plugins/good.py", working("good"))
    (tmp_path / "plugins" / "folder.py").mkdir()
    (tmp_path / "plugins" / "gone.py").symlink_to("nowhere")
    os.mkfifo(tmp_path / "plugins" / "pipe.py")
    registry = Registry(Sources(files=(str(tmp_path / "plugins"),)))
    assert registry.broken == []
    assert "good" in registry.entries("method")


def test_an_entry_point_of_nothing(install, working) -> None:
    install("off-by-one", working("good"), target=":missing")
    (broken,) = Registry(Sources()).broken
    assert broken.name == "off-by-one"
    assert "AttributeError" in broken.reason
    assert "missing" in broken.reason


def test_an_entry_point_that_names_the_class(install, working) -> None:
    install("direct", working("good"), target=":Mean")
    (broken,) = Registry(Sources()).broken
    assert broken.reason == "its entry point names the class Mean; it should name the module with the hooks"


def test_an_unknown_name_without_broken_plugins_gets_the_nearest() -> None:
    with pytest.raises(RequestError, match=r"unknown method 'nearst'; did you mean 'nearest'\?$"):
        Registry(Sources()).method("nearst")
