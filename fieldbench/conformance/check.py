"""One named check of one plugin, and what can come of it."""

from __future__ import annotations

import unittest
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Literal, NoReturn

from fieldbench.errors import one_line


class ConformanceFailure(AssertionError):
    """A plugin does not do what the harness relies on: what was done, what came out, what would be right."""


class NotChecked(unittest.SkipTest):
    """A check that means nothing here (no GPU, no data), with the reason; pytest shows it as skipped."""


def fail(done: str, found: str, right: str) -> NoReturn:
    """Raise a failure in the three parts that every failure has.

    Args:
        done: what the check did.
        found: what came of it.
        right: what a right plugin does, as in "returns a field".
    """
    raise ConformanceFailure(f"{done}: {found}. A right plugin {right}.")


@contextmanager
def no_error(done: str, right: str) -> Iterator[None]:
    """Whatever a plugin raises within is a failure, in the words of :func:`fail`."""
    try:
        yield
    except Exception as error:
        fail(done, one_line(error), right)


@dataclass(frozen=True)
class CheckResult:
    """What came of a check.

    Attributes:
        status: ``passed``, ``failed``, ``skipped`` (it means nothing here) or ``expected`` (it fails, as
            the plugin declares).
        message: why, for any status but ``passed``.
        cause: what was raised, with its traceback.
    """

    status: Literal["passed", "failed", "skipped", "expected"]
    message: str = ""
    cause: BaseException | None = None


@dataclass(frozen=True)
class Check:
    """A check of one plugin, ready to be called; its text is its id in a test suite.

    Attributes:
        subject: text form of the plugin.
        name: what is checked, such as ``shape-and-finiteness``.
        body: raises :class:`ConformanceFailure` or :class:`NotChecked`.
        expected: why this plugin cannot pass, or None.
    """

    subject: str
    name: str
    body: Callable[[], object]
    expected: str | None = None

    def outcome(self) -> CheckResult:
        """Do the check and tell what came of it; nothing is raised but by the keyboard."""
        try:
            self.body()
        except NotChecked as reason:
            return CheckResult("skipped", str(reason), reason)
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # a plugin may raise anything anywhere, and even call sys.exit
            failure = str(error)
            if not isinstance(error, ConformanceFailure):
                failure = f"doing this check of {self.subject}: {one_line(error)}. A right plugin raises nothing here."
            if self.expected is not None:
                return CheckResult("expected", f"{self.expected} ({failure})", error)
            return CheckResult("failed", failure, error)
        if self.expected is not None:
            return CheckResult(
                "failed",
                f"{self.subject}: the check passes, but expected_failures says that it cannot ({self.expected}). "
                f"A right plugin lists only what fails; remove {self.name!r} from expected_failures.",
            )
        return CheckResult("passed")

    def __call__(self) -> None:
        """Do the check as a test.

        Raises:
            ConformanceFailure: if the plugin fails, or passes what it declares to fail.
            unittest.SkipTest: if the check means nothing here or fails as declared.
        """
        outcome = self.outcome()
        if outcome.status == "failed":
            raise ConformanceFailure(outcome.message) from outcome.cause
        if outcome.status != "passed":
            raise NotChecked(outcome.message) from outcome.cause

    def __str__(self) -> str:
        return f"{self.subject}-{self.name}"
