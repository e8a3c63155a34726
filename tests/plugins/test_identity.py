"""What identifies a plugin's numbers: it changes with all that they come from, and with nothing else."""

from __future__ import annotations

import dataclasses
import functools
import json
import os
import re
import runpy
import subprocess
import sys
import traceback
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pydantic import PrivateAttr

import fieldbench
from fieldbench.identity import cell_identity, version
from fieldbench.records import Cell
from fieldbench.registry import Registry, Sources

CELL = Cell("mine", "ssf-synthetic", "fibers", "none", "final", 0.1)

#: A plugin whose estimate is what ``{value}`` says, after the imports of ``{top}``.
PLUGIN = '''
import os, sys
from pathlib import Path
import numpy as np
import fieldbench
{top}

class Mine(fieldbench.Method):
    """A constant."""

    name = "mine"

    def complete(self, observation, *, seed, device, report):
        {inside}
        return np.full(observation.shape, float({value}))

@fieldbench.hookimpl
def fieldbench_register_methods():
    return [Mine]
'''

#: What a script or notebook does with a class; a plugin's file does so by its name.
ASK = """
from fieldbench.identity import cell_identity
from fieldbench.records import Cell
from fieldbench.registry import Registry, Sources
print(cell_identity(Registry(Sources({sources})), Cell({method!r}, "ssf-synthetic", "fibers", "none", "final", 0.1)))
"""


def plugin(top: str = "", value: str = "1", inside: str = "pass") -> str:
    return PLUGIN.format(top=top, value=value, inside=inside)


def of_the_program(top: str = "", value: str = "1", inside: str = "pass") -> str:
    """A program that defines the class and asks for its identity."""
    return plugin(top, value, inside) + ASK.format(sources="classes=(Mine,)", method="mine")


def of_a_notebook(text: str) -> str:
    """A program that keeps the cells that ran, as notebooks do."""
    return f"In = {[text]!r}\nexec(In[0])"


def of_files(*files: str, method: str = "mine") -> str:
    """A program that asks for the identity of a plugin in files."""
    return ASK.format(sources=f"files={files!r}", method=method)


class Folder:
    """Files of a test, and programs that run among them."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def write(self, files: dict[str, str]) -> None:
        for name, text in files.items():
            (self.path / name).parent.mkdir(parents=True, exist_ok=True)
            (self.path / name).write_text(text)

    def edit(self, name: str, old: str, new: str) -> None:
        text = (self.path / name).read_text()
        assert old in text
        (self.path / name).write_text(text.replace(old, new))

    def run(self, *command: str, **environment: str) -> str:
        """What a program prints in a process of its own."""
        call, given = [sys.executable, *command], {**os.environ, **environment}
        done = subprocess.run(call, capture_output=True, text=True, env=given, cwd=self.path, timeout=300)
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    def ask(self, *command: str, also: str = "", **environment: str) -> str:
        """As `run`, in a copy of this process, which has imported fieldbench already."""
        said = self.path / "said"
        child = os.fork()
        if child == 0:
            code = 1
            with said.open("w") as sys.stdout:
                try:
                    os.chdir(self.path)
                    os.environ.update(environment)
                    sys.dont_write_bytecode = True
                    sys.path[:0] = [str(self.path / Path(command[0]).parent), *filter(None, [also])]
                    act(*command)
                    code = 0
                except BaseException:
                    traceback.print_exc(file=sys.stdout)
                sys.stdout.flush()
                os._exit(code)
        _, status = os.waitpid(child, 0)
        assert status == 0, said.read_text()
        return said.read_text().strip()


def act(program: str, *arguments: str) -> None:
    """What Python does with its command line."""
    if program == "-m":
        sys.argv = [*arguments]
        runpy.run_module(arguments[0], run_name="__main__", alter_sys=True)
    elif program == "-c":
        sys.argv = ["-c", *arguments[1:]]
        sys.modules["__main__"] = types.ModuleType("__main__")
        exec(arguments[0], vars(sys.modules["__main__"]))
    else:
        sys.argv = [program, *arguments]
        runpy.run_path(str(Path(program).absolute()), run_name="__main__")


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    Registry(Sources())  # imports what the copies of this process need
    return Folder(tmp_path)


BESIDE = "sys.path.insert(0, str(Path(__file__).parent))\n"

#: By name: files, the command that prints an identity, the file that is edited.
LAYOUTS: dict[str, tuple[dict[str, str], list[str], str]] = {
    "a helper beside a script": (
        {"script.py": of_the_program("import helper", "helper.VALUE"), "helper.py": "VALUE = 1.0\n"},
        ["script.py"],
        "helper.py",
    ),
    "a function of a helper beside a script": (
        {"script.py": of_the_program("from helper import value", "value()"), "helper.py": "def value(): return 1.0\n"},
        ["script.py"],
        "helper.py",
    ),
    "the script itself": ({"script.py": of_the_program(value="1.0")}, ["script.py"], "script.py"),
    "a helper beside a notebook": (
        {"helper.py": "def value():\n    return 1.0\n"},
        ["-c", of_a_notebook(of_the_program("import helper", "helper.value()"))],
        "helper.py",
    ),
    "a helper that a notebook imports in a function": (
        {"helper.py": "def value():\n    return 1.0\n"},
        ["-c", of_a_notebook(of_the_program(value="value()", inside="from helper import value"))],
        "helper.py",
    ),
    "a helper beside a file": (
        {"mine.py": plugin(BESIDE + "import helper", "helper.VALUE"), "helper.py": "VALUE = 1.0\n"},
        ["-c", of_files("mine.py")],
        "helper.py",
    ),
    "a helper that a file imports in a function": (
        {"mine.py": plugin(BESIDE, "helper.VALUE", "import helper"), "helper.py": "VALUE = 1.0\n"},
        ["-c", of_files("mine.py")],
        "helper.py",
    ),
    "a helper that a file looks for when it runs": (
        {
            "deep/mine.py": plugin("", "helper.VALUE", BESIDE.strip() + "; import helper"),
            "deep/helper.py": "VALUE = 1.0\n",
        },
        ["-c", of_files("deep/mine.py")],
        "deep/helper.py",
    ),
    "a helper of a helper": (
        {
            "mine.py": plugin(BESIDE + "import helper", "helper.value()"),
            "helper.py": "def value():\n    import further.deep as deep\n    return deep.VALUE\n",
            "further/__init__.py": "",
            "further/deep.py": "from .deeper import VALUE\n",
            "further/deeper.py": "VALUE = 1.0\n",
        },
        ["-c", of_files("mine.py")],
        "further/deeper.py",
    ),
    "a module of a package": (
        {
            "package/__init__.py": plugin("from . import part", "part.value()"),
            "package/part.py": "def value():\n    return 1.0\n",
            "package.dist-info/METADATA": "Metadata-Version: 2.1\nName: package\nVersion: 1.0\n",
            "package.dist-info/entry_points.txt": "[fieldbench]\nmine = package\n",
            "package.dist-info/direct_url.json": '{"url": "file:///x", "dir_info": {"editable": true}}',
        },
        ["-c", of_files()],
        "package/part.py",
    ),
    "a module beside a program in a package": (
        {
            "package/__init__.py": "",
            "package/program.py": of_the_program("from . import part", "part.value()"),
            "package/part.py": "def value():\n    from . import deep\n    return deep.VALUE\n",
            "package/deep.py": "VALUE = 1.0\n",
        },
        ["-m", "package.program"],
        "package/deep.py",
    ),
    "a package beside a package": (
        {
            "package/__init__.py": plugin("", "value()", "from other.part import value"),
            "package.egg-info/PKG-INFO": "Metadata-Version: 2.1\nName: package\nVersion: 1.0\n",
            "package.egg-info/entry_points.txt": "[fieldbench]\nmine = package\n",
            "other/__init__.py": "",
            "other/part.py": "def value():\n    return 1.0\n",
        },
        ["-c", of_files()],
        "other/part.py",
    ),
    "a module of a namespace": (
        {"mine.py": plugin(BESIDE + "from space import part", "part.VALUE"), "space/part.py": "VALUE = 1.0\n"},
        ["-c", of_files("mine.py")],
        "space/part.py",
    ),
    "an inner plugin of a wrapper": (
        {
            "inner.py": plugin(value="1.0").replace("Mine", "Inner").replace('"mine"', '"inner"'),
            "wrapper.py": """
import fieldbench
class Wrapped(fieldbench.Method):
    name = "wrapped"
    revision = "1"
    inner: fieldbench.Method
    def complete(self, observation, **how):
        return self.inner.complete(observation, **how)
    def __str__(self):
        return f"{self.inner}+wrap"
class Wrap(fieldbench.Modifier):
    name = "wrap"
    def modify(self, method):
        return Wrapped(inner=method)
@fieldbench.hookimpl
def fieldbench_register_methods():
    return [Wrap]
""",
        },
        ["-c", of_files("inner.py", "wrapper.py", method="inner+wrap")],
        "inner.py",
    ),
}


@pytest.mark.parametrize(("files", "command", "edited"), LAYOUTS.values(), ids=LAYOUTS)
def test_an_edit_of_what_a_class_reaches_changes_its_identity(folder, files, command, edited) -> None:
    folder.write(files)
    before = folder.ask(*command)
    assert len(before) == 16
    with (folder.path / edited).open("a") as file:
        file.write("\n# a remark\n")
    assert folder.ask(*command) == before
    folder.edit(edited, "1.0", "7.25")
    assert folder.ask(*command) != before


@pytest.mark.parametrize("layout", ["a helper of a helper", "a helper beside a script"])
def test_a_folder_may_move_and_be_reached_by_a_link(folder, layout) -> None:
    files, command, _ = LAYOUTS[layout]
    folder.write({f"here/{name}": text for name, text in files.items()})
    folder.write({f"other/under/{name}": text for name, text in files.items()})
    (folder.path / "link").symlink_to(folder.path / "here")
    found = {Folder(folder.path / under).ask(*command) for under in ("here", "other/under", "link")}
    assert len(found) == 1
    assert found != {""}


def test_texts_that_hold_the_folder_of_a_file_say_the_same_elsewhere(folder) -> None:
    text = plugin("HERE = Path(__file__).resolve().parent\nDATA = os.path.join(HERE, 'data')", "len(DATA + str(HERE))")
    for under in ("here", "there"):
        folder.write({f"{under}/mine.py": text})
    here, there = (folder.ask("-c", of_files(f"{under}/mine.py")) for under in ("here", "there"))
    assert here == there


@pytest.mark.parametrize(
    ("where", "source"), [("mine.py", "np.array([float(sys.argv[1])])"), ("helper.py", "float(os.environ['GAIN'])")]
)
def test_a_constant_counts_by_its_value(folder, where, source) -> None:
    texts = {
        "mine.py": plugin(f"GAIN = {source}", "GAIN"),
        "helper.py": f"import os, sys\nimport numpy as np\nGAIN = {source}\nUNREAD = id(object())\n",
    }
    script = of_the_program(f"GAIN = {source}", "GAIN")
    if where == "helper.py":
        texts["mine.py"] = plugin(BESIDE + "import helper as other", "other.GAIN")
        script = of_the_program("from helper import GAIN", "GAIN")
    folder.write({**texts, "script.py": script, "ask.py": of_files("mine.py")})
    for program in ("script.py", "ask.py"):
        one, two, again = (folder.ask(program, gain, GAIN=gain) for gain in ("1", "7", "1"))
        assert one == again != two, program


def test_a_constant_of_a_package_counts_by_its_value(folder) -> None:
    folder.write(
        {
            "package/__init__.py": plugin("from .settings import gain", "gain()"),
            "package/settings.py": "import os\nTABLE = {'gain': (float(os.environ['GAIN']), 2)}\n"
            "def gain():\n    return TABLE['gain'][0]\n",
            "package.dist-info/METADATA": "Metadata-Version: 2.1\nName: package\nVersion: 1.0\n",
            "package.dist-info/entry_points.txt": "[fieldbench]\nmine = package\n",
            "package.dist-info/direct_url.json": '{"url": "file:///x", "dir_info": {"editable": true}}',
        }
    )
    one, two, again = (folder.ask("-c", of_files(), GAIN=gain) for gain in ("1", "7", "1"))
    assert one == again != two


def test_a_constant_that_only_others_read_does_not_count(folder) -> None:
    top = "START = id(object())\nRESULTS = {}\ndef main():\n    RESULTS[START] = 1\nmain()\n"
    folder.write({"script.py": of_the_program(top)})
    first, second = folder.ask("script.py"), folder.ask("script.py", "--verbose")
    assert first == second


INSTALLED = {"site/wavelets/__init__.py": "def value():\n    return 1.0\n"}


def installed(release: str, name: str = "wavelets") -> dict[str, str]:
    info = f"Metadata-Version: 2.1\nName: {name}\nVersion: {release}\n"
    return {"site/wavelets.dist-info/METADATA": info, "site/wavelets.dist-info/top_level.txt": "wavelets\n"}


@pytest.mark.parametrize(("name", "inside"), [("wavelets", True), ("py-waves", False)])
def test_the_version_of_a_distribution_counts_and_not_its_text(folder, name, inside) -> None:
    line = "import wavelets"
    text = plugin(value="wavelets.value()", inside=line) if inside else plugin(line, "wavelets.value()")
    folder.write({**INSTALLED, **installed("1.0", name), "mine.py": text})
    site = str(folder.path / "site")
    before = folder.ask("-c", of_files("mine.py"), also=site)
    folder.edit("site/wavelets/__init__.py", "1.0", "7.0")
    assert folder.ask("-c", of_files("mine.py"), also=site) == before
    folder.write(installed("1.1", name))
    assert folder.ask("-c", of_files("mine.py"), also=site) != before


def test_an_installed_plugin_counts_by_its_version_and_those_that_it_imports(folder) -> None:
    package = "site/package"
    folder.write(
        {
            **INSTALLED,
            **installed("1.0"),
            f"{package}/__init__.py": plugin("from .deep import value", "value()"),
            f"{package}/deep.py": "def value():\n    import wavelets\n    return wavelets.value()\n",
            f"{package}.dist-info/METADATA": "Metadata-Version: 2.1\nName: package\nVersion: 3.1\n",
            f"{package}.dist-info/entry_points.txt": "[fieldbench]\nmine = package\n",
        }
    )
    ask = "from fieldbench.identity import version\nfrom fieldbench.registry import Registry, Sources\n"
    ask += "registry = Registry(Sources())\nprint(version(registry, registry.find('method', 'mine').cls))\n"
    assert folder.ask("-c", ask, also=str(folder.path / "site")) == "package 3.1, wavelets 1.0"
    folder.write(installed("1.1"))
    assert folder.ask("-c", ask, also=str(folder.path / "site")) == "package 3.1, wavelets 1.1"


PROMPT = """
import dataclasses, enum, functools, re
import numba
import numpy as np
import fieldbench
from fieldbench.identity import version
from fieldbench.registry import Registry, Sources
LIMITS = {1, 2, 3}
TYPES = {int, float, str}
SHARE = 0.5
LEVEL = np.float32(0.25)
COUNT = np.int64(7)
PATTERN = re.compile("a+")
MAXIMUM = np.maximum
TABLE = np.arange(6).reshape(2, 3)
Mode = enum.Enum("Mode", ["slow", "fast"])
@dataclasses.dataclass(frozen=True)
class Settings:
    gain: float = 1.0
    def __len__(self):
        return 4
SETTINGS = Settings()
PARTIAL = functools.partial(np.clip, a_min=-9.0)
@numba.njit(fastmath=False)
def compiled(value):
    return value + 20
@functools.cache
def kept(value):
    return value + 21
def decorated(function):
    def inner(*given):
        return function(*given)
    return inner
@decorated
@functools.lru_cache
def twice(value):
    return value + 22
def helper(values):
    return np.mean(values) * SHARE
class Average(fieldbench.Method):
    '''Average.'''
    name = "average"
    steps: int = fieldbench.parameter(3, "steps")
    def complete(self, observation, *, seed, device, report):
        scale = (lambda x: 2 * x)
        uses = LEVEL, COUNT, PATTERN, MAXIMUM, TABLE, Mode.slow, SETTINGS, PARTIAL, compiled, kept, twice, TYPES
        return np.full(observation.shape, scale(helper(observation.observed))) if LIMITS else None
print(version(Registry(Sources(classes=(Average,))), Average))
"""


def in_cells(*cells: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> str:
    """What the cells of a notebook print."""
    module = types.ModuleType("__main__")
    monkeypatch.setitem(sys.modules, "__main__", module)
    module.In = ["", *cells]
    for cell in cells:
        exec(cell, module.__dict__)
    return capsys.readouterr().out


@pytest.fixture
def notebook(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[..., str]:
    return functools.partial(in_cells, monkeypatch=monkeypatch, capsys=capsys)


@pytest.fixture(scope="module")
def as_it_is() -> str:
    """What the notebook prints as it stands."""
    return in_a_process(of_a_notebook(PROMPT), "1")


def in_a_process(program: str, hash_seed: str) -> str:
    environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
    command = [sys.executable, "-c", program]
    return subprocess.run(command, capture_output=True, text=True, env=environment, timeout=120, check=True).stdout


def test_a_class_of_a_notebook_has_one_version_in_every_process(as_it_is) -> None:
    assert in_a_process(of_a_notebook(PROMPT), "2") == as_it_is
    assert as_it_is.startswith("this program source ")


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("2 * x", "3 * x"),
        ("np.mean", "np.median"),
        ("SHARE = 0.5", "SHARE = 0.6"),
        ("parameter(3,", "parameter(4,"),
        ("{1, 2, 3}", "{1, 2, 4}"),
        ("{int, float, str}", "{int, float}"),
        ("np.float32(0.25)", "np.float32(0.5)"),
        ("np.float32(0.25)", "np.float64(0.25)"),
        ("np.int64(7)", "np.int64(8)"),
        ('"a+"', '"b+"'),
        ("np.maximum", "np.minimum"),
        ("reshape(2, 3)", "reshape(3, 2)"),
        ("Mode.slow", "Mode.fast"),
        ("gain: float = 1.0", "gain: float = 2.0"),
        ("return 4", "return 5"),
        ("Settings()", "Settings(gain=3.0)"),
        ("a_min=-9.0", "a_min=-8.0"),
        ("partial(np.clip, a_min", "partial(np.copy, a_min"),
        ("fastmath=False", "fastmath=True"),
        ("value + 20", "value - 20"),
        ("value + 21", "value - 21"),
        ("value + 22", "value - 22"),
    ],
)
def test_an_edit_of_a_notebook_is_noticed(old: str, new: str, notebook, as_it_is) -> None:
    assert old in PROMPT
    assert notebook(PROMPT.replace(old, new)) != as_it_is


DEFINED, ASKED = PROMPT[: PROMPT.index("print(")], PROMPT[PROMPT.index("print(") :]


def test_the_cell_that_ran_last_counts(notebook) -> None:
    """A cell that runs again takes back what one after it has changed."""
    other = "def helper(values):\n    return np.max(values)\nPATTERN = re.compile('c')"
    first = "def helper(values):\n    return np.min(values)\nPATTERN = re.compile('d')"
    there, back = notebook(DEFINED, first, other, ASKED), notebook(DEFINED, other, first, ASKED)
    assert there != back
    assert notebook(DEFINED, first, other, first, ASKED) == back
    assert notebook(DEFINED, other, "LIMITS.add(4)", ASKED) != there, "what a later cell has changed"
    assert notebook(DEFINED, first, "UNREAD = 3", other, ASKED) == there


def test_what_a_function_makes_counts_with_what_it_was_given(notebook) -> None:
    made = [DEFINED.replace("class Average", "def make(gain, table):\n  class Average")]
    lines = made[0].splitlines()
    start = next(number for number, line in enumerate(lines) if line.startswith("  class Average"))
    lines[start + 1 :] = [f"  {line}" for line in lines[start + 1 :]] + ["  return Average"]
    inner = "\n".join(lines).replace("if LIMITS", "* gain * table[0]")
    inner = inner.replace(" else None", "")
    found = {notebook(inner, f"Average = make({given})", ASKED) for given in ("1, [2]", "2, [2]", "1, [3]", "1, [2]")}
    assert len(found) == 3


@pytest.mark.parametrize(
    ("revision", "words"),
    [("", "the source of Mine is not there; write it into a file, or set revision"), ('; revision = "1"', "")],
)
def test_without_its_source_a_class_has_no_identity_unless_a_revision_stands_for_it(revision, words) -> None:
    """What is piped into Python is kept nowhere."""
    text = of_the_program().replace('name = "mine"', f'name = "mine"{revision}')
    done = subprocess.run([sys.executable, "-"], input=text, capture_output=True, text=True, timeout=120, check=True)
    assert bool(done.stdout.strip()) == (not words)
    assert words in done.stderr


def test_a_remark_in_a_notebook_is_no_edit(notebook, as_it_is) -> None:
    remarked = PROMPT.replace("LIMITS =", "# a remark\nLIMITS =").replace("'''Average.'''", "'''The mean.'''")
    assert notebook(remarked) == as_it_is


def test_a_revision_stands_for_the_code(write, working) -> None:
    source = working("average").replace('name = "average"', 'name = "average"\n    revision = "7"')
    for under, text in (("a", source), ("b", source + "\n# a remark\n")):
        registry = Registry(Sources(files=(write(f"{under}/mine.py", text),)))
        assert version(registry, registry.find("method", "average").cls) == "mine revision 7"


class Based(fieldbench.Method):
    """A method whose revision is its own."""

    name = "based"
    revision = "1"

    def complete(self, observation, *, seed, device, report):
        return np.zeros(observation.shape)


class Derived(Based):
    """It changes what the revision of its base stands for."""

    name = "derived"


def test_a_revision_does_not_stand_for_a_class_derived_from_it() -> None:
    registry = Registry(Sources(classes=(Based, Derived)))
    assert version(registry, Based) == "this program revision 1"
    assert version(registry, Derived).startswith("this program source ")


class Data(fieldbench.Dataset):
    """A dataset with a file."""

    name = "data"
    revision = "1"

    def draw(self, rng):
        raise NotImplementedError

    def fingerprint(self):
        return Path(os.environ["DATA_FILE"]).read_text()


class Holding(fieldbench.Method):
    """A method that holds another and has data."""

    name = "holding"
    revision = "1"
    held: Any = None
    _hidden: Any = PrivateAttr(None)

    def complete(self, observation, *, seed, device, report):
        return np.zeros(observation.shape)


class Hold(fieldbench.Modifier):
    """It wraps a method in one of many ways."""

    name = "hold"
    revision = "1"
    how: str = fieldbench.parameter("plain", "where the method goes")

    def modify(self, method):
        inside = {"plain": method, "tuple": (1, (method,)), "dict": {"a": [method]}}
        holding = Holding(held=inside.get(self.how))
        if self.how == "hidden":
            holding._hidden = method
        return holding


DATA = dataclasses.replace(CELL, method="nearest", dataset="data")


def test_the_content_of_a_data_file_counts(tmp_path, monkeypatch) -> None:
    file = tmp_path / "field"
    monkeypatch.setenv("DATA_FILE", str(file))
    registry = Registry(Sources(classes=(Data,)))
    found = []
    for content in ("one", "two", "one"):
        file.write_text(content)
        found.append(cell_identity(registry, DATA))
    assert found[0] == found[2] != found[1]
    assert cell_identity(registry, DATA, lambda plugin: "two" if plugin.name == "data" else "") == found[1]


def test_what_has_no_identity_has_none_and_says_why(tmp_path, monkeypatch, caplog) -> None:
    monkeypatch.setenv("DATA_FILE", str(tmp_path / "missing"))
    registry = Registry(Sources(classes=(Data,)))
    assert [cell_identity(registry, DATA) for _ in range(3)] == [""] * 3
    (said,) = caplog.messages
    assert said.startswith("data has no identity: fingerprint() raised FileNotFoundError")


class Shy:
    """An object that does not say what it is."""

    @property
    def __class__(self):
        raise RuntimeError("do not look")


def test_what_cannot_be_looked_at_has_no_identity(caplog) -> None:
    shy = Shy()

    class Mine(Based):
        """It holds on to one."""

        name = "mine"

        def complete(self, observation, *, seed, device, report):
            return shy

    assert cell_identity(Registry(Sources(classes=(Mine,))), CELL) == ""
    (said,) = caplog.messages
    assert re.match("mine has no identity: .* cannot be looked at: RuntimeError: do not look", said)


def test_a_file_that_has_gone_leaves_no_identity(write, working, caplog) -> None:
    path = write("mine.py", working("average"))
    registry = Registry(Sources(files=(path,)))
    Path(path).unlink()
    assert cell_identity(registry, dataclasses.replace(CELL, method="average")) == ""
    (said,) = caplog.messages
    assert re.match(r"average .*mine\.py.* is not there", said)


@pytest.mark.parametrize("how", ["plain", "tuple", "dict", "hidden"])
def test_a_plugin_that_another_holds_counts_with_all_that_it_is(how, write, working) -> None:
    found = []
    for under, text in (
        ("a", working("average")),
        ("b", working("average").replace("mean()", "max()")),
        ("c", ""),
    ):
        file = write(f"{under}/mine.py", text or working("average"))
        registry = Registry(Sources(files=(file,), classes=(Hold,)))
        found.append(cell_identity(registry, dataclasses.replace(CELL, method=f"average+hold[how={how}]")))
        other = dataclasses.replace(CELL, method=f"average[offset=2]+hold[how={how}]")
        assert cell_identity(registry, other) not in ("", found[-1])
    assert found[0] == found[2] != found[1]


def test_what_else_a_plugin_holds_counts_by_its_content_and_code(folder) -> None:
    files, command, _ = LAYOUTS["an inner plugin of a wrapper"]
    how = "Wrapped(inner=method, how=(helper.scaled, np.ones(3), {'by': helper.Rule(1)}))"
    wrapper = (
        files["wrapper.py"].replace("Wrapped(inner=method)", how).replace(" inner:", " how: object = None\n    inner:")
    )
    helper = "class Rule:\n    def __init__(self, by):\n        self.by = by\ndef scaled(x):\n    return 2.0 * x\n"
    folder.write({**files, "wrapper.py": "import numpy as np\nimport helper\n" + wrapper, "helper.py": helper})
    found = {folder.ask(*command) for _ in range(2)}
    assert len(found) == 1
    for file, old, new in (("helper.py", "2.0", "3.5"), ("wrapper.py", "ones", "zeros"), ("wrapper.py", "(1)", "(2)")):
        folder.edit(file, old, new)
        found.add(folder.ask(*command))
    assert len(found - {""}) == 4
    folder.edit("wrapper.py", "np.zeros(3)", "open('/dev/null')")
    assert folder.ask(*command) == "", "a file that is open may hold anything"


def test_parameters_and_modifiers_count() -> None:
    registry = Registry(Sources())
    methods = ["tap", "tap[epochs=7]", "tap+tv", "tap+tv[weight=0.5]", "mhtap"]
    assert len({cell_identity(registry, dataclasses.replace(CELL, method=method)) for method in methods}) == 5


def test_code_in_memory_is_not_taken_for_that_in_an_edited_file(folder) -> None:
    """A class of a module beside a notebook travels as it is in memory; a new process has the edited file's."""
    folder.write({"lab.py": plugin(value="1.0")})
    ask = ASK.format(sources="classes=(lab.Mine,)", method="mine")
    edit = "p = lab.Path('lab.py'); p.write_text(p.read_text().replace('1.0', '7.25'))\n"
    again = "import importlib; importlib.reload(lab)\n"
    before, *after = folder.ask("-c", f"import lab\n{ask}{edit}{ask}{again}{ask}").split("\n")
    assert after[0] == ""
    assert after[1] == folder.ask("-c", "import lab\n" + ask) != before


def test_what_a_run_leaves_in_memory_is_no_edit(write) -> None:
    """A worker names its second method after its first has run."""
    text = plugin("CACHE = {}\ndef kept():\n    return CACHE.setdefault('x', 1)", "kept()")
    text += (
        text[text.index("class Mine") : text.index("@fieldbench")].replace("Mine", "Other").replace('"mine"', '"other"')
    )
    text = text.replace("[Mine]", "[Mine, Other]").replace("return [Mine, Other]", "return [Mine, globals()['Other']]")
    mine, other = (dataclasses.replace(CELL, method=name) for name in ("mine", "other"))
    file = write("mine.py", text)
    planned = cell_identity(Registry(Sources(files=(file,))), other)
    registry = Registry(Sources(files=(file,)))
    cell_identity(registry, mine)
    sys.modules[registry.find("method", "mine").cls.__module__].kept()
    assert cell_identity(registry, other) == planned


def test_what_a_script_imports_for_other_things_is_no_part_of_a_class(folder) -> None:
    folder.write({"script.py": of_the_program("import other"), "other.py": "VALUE = 1.0\n"})
    before = folder.ask("script.py")
    folder.edit("other.py", "1.0", "7.25")
    assert folder.ask("script.py") == before != ""


def test_a_file_that_is_loaded_again_meanwhile_is_no_edit(write) -> None:
    """Each registry loads it; the class of an earlier one lives on."""
    file = write(
        "mine.py",
        plugin("GAIN = 2.0\nclass Base(fieldbench.Method):\n    extra: float = 1.0\n")
        .replace("class Mine(fieldbench.Method)", "class Mine(Base)")
        .replace("float(1)", "GAIN"),
    )
    planned = cell_identity(Registry(Sources(files=(file,))), CELL)
    registry = Registry(Sources(files=(file,)))
    Registry(Sources(files=(file,)))
    assert cell_identity(registry, CELL) == planned


def scores(folder: Folder, out: str, *arguments: str) -> dict[str, float]:
    folder.run("-m", "fieldbench", "run", "--datasets", "ssf-synthetic", "--trials", "1", "--out", out, *arguments)
    rows = [json.loads(line) for line in (folder.path / out / "trials.jsonl").read_text().splitlines()]
    assert all(row["status"] == "ok" for row in rows)
    return {row["key"]: row["metrics"]["rmse"] for row in rows}


def test_after_an_edit_a_run_has_the_new_score_and_without_one_computes_nothing(folder) -> None:
    """A file with a helper that is imported in a function, and that method in a wrapper of another file."""
    files, _, _ = LAYOUTS["an inner plugin of a wrapper"]
    inner = plugin(BESIDE, "observation.observed.mean() + value()", "from helper import value").replace(
        '"mine"', '"inner"'
    )
    folder.write({**files, "inner.py": inner, "helper.py": "def value():\n    return 1.0\n"})
    plugins = ["--plugin", "inner.py", "--plugin", "wrapper.py", "--methods", "inner,inner+wrap,nearest"]
    before = scores(folder, "one", *plugins)
    written = (folder.path / "one" / "trials.jsonl").read_bytes()
    assert scores(folder, "one", *plugins) == before
    assert (folder.path / "one" / "trials.jsonl").read_bytes() == written
    folder.edit("helper.py", "1.0", "70.5")
    after = scores(folder, "two", *plugins)
    assert len(before) == len(after) == 3
    assert len(before.keys() & after.keys()) == 1, "nearest alone is as it was"
    assert sorted(after.values())[1:] == pytest.approx([70.5, 70.5], rel=0.01)
    assert max(before.values()) < 10


RUN = """
import json, sys
if __name__ == "__main__":
    done = fieldbench.run(methods=[Mine], datasets="ssf-synthetic", trials=1, out=sys.argv[2]).frame()
    print(json.dumps(dict(zip(done["key"], done["rmse"]))))
"""


def test_after_an_edit_beside_it_a_script_has_the_new_score(folder) -> None:
    """The helper takes part of its value from the command line, which the processes of the run have to know."""
    helper = "import sys\nGAIN = float(sys.argv[1])\ndef value():\n    return 1.0 * GAIN\n"
    folder.write({"script.py": plugin("import helper", "helper.value()") + RUN, "helper.py": helper})
    one, two, again = (json.loads(folder.run("script.py", gain, "out" + gain)) for gain in ("2000", "3000", "2000"))
    folder.edit("helper.py", "1.0", "2.50")
    edited = json.loads(folder.run("script.py", "2000", "edited"))
    assert one == again
    assert len(one.keys() | two.keys() | edited.keys()) == 3
    # The field is a speed of sound of some 1500 m/s, so these constants are as far off as they lie apart.
    rmse = [next(iter(found.values())) for found in (one, two, edited)]
    assert np.diff(rmse) == pytest.approx([1000, 2000], rel=0.01)


def test_the_built_in_methods_have_revisions() -> None:
    registry = Registry(Sources())
    for kind in ("method", "noise", "sampler", "metric"):
        for name, entry in registry.entries(kind).items():
            if entry.source.label == "fieldbench-completion":
                assert vars(entry.cls).get("revision"), f"{kind} {name}"
