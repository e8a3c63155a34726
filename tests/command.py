"""Commands, called in this process."""

from __future__ import annotations

import contextlib
import csv
import io
from dataclasses import dataclass

import pytest

from fieldbench.cli.main import main


@dataclass(frozen=True)
class Outcome:
    """What a command left behind: exit code, standard output, standard error."""

    code: int
    out: str
    err: str

    @property
    def shown(self) -> str:
        """What a command that went well printed."""
        assert self.code == 0, self.err
        return self.out

    @property
    def rows(self) -> list[dict[str, str]]:
        """The same as CSV."""
        return list(csv.DictReader(io.StringIO(self.shown)))

    @property
    def refusal(self) -> str:
        """What was said of a wrong request."""
        assert self.code == 2, self
        return self.err


def command(*words: object) -> Outcome:
    """What becomes of ``fieldbench`` with these words."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err), pytest.raises(SystemExit) as end:
        main([str(word) for word in words])
    assert isinstance(end.value.code, int)
    return Outcome(end.value.code, out.getvalue(), err.getvalue())
