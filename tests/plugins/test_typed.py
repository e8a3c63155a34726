"""What an editor and a type checker know of a stranger's plugin, and of the examples that it is made from."""

from __future__ import annotations

import ast
import textwrap
from collections.abc import Iterator

import pytest

from tests.test_docs import DOCS, ROOT, blocks

SCAFFOLD = ROOT / "fieldbench" / "scaffold"
EXAMPLES = ROOT / "examples"

pytestmark = pytest.mark.skipif(not DOCS.is_dir(), reason="the pages lie beside the tests in a checkout only")


def sources() -> Iterator[tuple[str, str]]:
    """Every example of a plugin, with where it stands."""
    for page in [*DOCS.rglob("*.md"), ROOT / "README.md"]:
        for number, block in enumerate(blocks(page)):
            if block.language == "python":
                yield f"{page.name}:{number}", textwrap.dedent(block.code)
    for file in SCAFFOLD.rglob("src/PACKAGE/[a-z]*.py.in"):
        yield str(file.relative_to(SCAFFOLD)), file.read_text().replace("@CLASS@", "Made").replace("@PACKAGE@", "made")
    for file in [*EXAMPLES.rglob("src/**/*.py"), *EXAMPLES.glob("*/*.py")]:
        yield str(file.relative_to(ROOT)), file.read_text()


@pytest.mark.parametrize(("source", "text"), list(sources()), ids=lambda value: value if len(value) < 60 else "")
def test_methods_of_plugins_name_the_types_of_their_arguments(source, text) -> None:
    for cls in ast.walk(ast.parse(text)):
        if isinstance(cls, ast.ClassDef) and "fieldbench." in "".join(map(ast.unparse, cls.bases)):
            for function in cls.body:
                if isinstance(function, ast.FunctionDef):
                    arguments = [*function.args.args[1:], *function.args.kwonlyargs]
                    untyped = [item.arg for item in arguments if item.annotation is None]
                    assert not untyped, f"{source}: {cls.name}.{function.name}: {untyped}"


STRANGER = '''
import fieldbench


class Mean(fieldbench.Method):
    """The mean, k times."""

    name = "mean-k"

    k: int = fieldbench.parameter(3, "how often")

    def complete(
        self, observation: fieldbench.Observation, *, seed: int, device: str, report: fieldbench.Report
    ) -> fieldbench.FloatArray:
        return self.k * observation.filled(observation.observed.mean())


Mean(k=4)
fieldbench.seeded(3)
Mean(k="a")
'''

#: None of these says what a parameter is, and to read them takes long.
SETTINGS = """
[mypy]
strict = true
follow_imports_for_stubs = true
[mypy-jinja2.*,joblib.*,matplotlib.*,numba.*,pandas.*,rich.*,scipy.*,sklearn.*,tensorly.*,torch.*,typer.*,xarray.*]
follow_imports = skip
"""


def test_a_type_checker_without_any_plugin_knows_the_parameters_of_a_method(tmp_path) -> None:
    api = pytest.importorskip("mypy.api")
    file = tmp_path / "stranger.py"
    file.write_text(STRANGER)
    (tmp_path / "mypy.ini").write_text(SETTINGS)
    out, _, _ = api.run(["--config-file", str(tmp_path / "mypy.ini"), "--cache-dir", str(tmp_path), str(file)])
    said = [line for line in out.splitlines() if "stranger.py" in line]
    assert len(said) == 1, out
    assert 'Argument "k" to "Mean" has incompatible type "str"; expected "int"' in said[0]
