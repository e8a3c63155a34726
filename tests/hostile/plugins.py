"""Hostile plugins as a table: which function of which kind does what, and what a user should then see."""

from __future__ import annotations

import math
import re
import textwrap
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fieldbench.records import FAILURES

OWN_METRICS = ("mae", "nmse", "rmse")

#: What becomes of the act's own trials. The rows of all others never change.
FAILS = "fails"  # a failed row that says why
TIMES_OUT = "times out"  # the time limit ends it
PASSES = "passes"  # it is harmless: the row has the score that an honest method would have
LATER = "later"  # it works at first, so that the run begins; later trials fail
HARMS_ITSELF = "harms itself"  # its own trials may fail or score badly, as it likes
EITHER = "either"  # both are right, as long as no wrong score is kept

#: Every act can use these. A loop and a sleep end by themselves some day, in case nobody ends them.
PRELUDE = '''
import ctypes, functools, gc, hashlib, os, re, resource, signal, socket, subprocess, sys, threading, time, warnings
from pathlib import Path

import numpy as np

import fieldbench
from fieldbench.field import Axis, Field

THE_END = time.monotonic() + 400


def flat(observation):
    return np.full(observation.shape, observation.observed.mean())


def loop():
    while time.monotonic() < THE_END:
        pass
    os._exit(99)


def sleep_deaf():
    signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
    time.sleep(400)


def hog():
    """Three times the memory that the tests allow, not more: nobody may notice it at once."""
    hoard = []
    for _ in range(384):
        hoard.append(np.ones(2**20))
        time.sleep(0.003)


def segfault():
    ctypes.string_at(0)


def daemon():
    """A grandchild that outlives the trial and keeps every descriptor open."""
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            time.sleep(20)
        os._exit(0)


def write_everywhere(data):
    """Write to every descriptor that could be somebody's channel."""
    for to in range(3, 20):
        try:
            os.set_blocking(to, False)
            os.write(to, data)
        except OSError:
            pass


def memory():
    """What this process can write to, piece by piece."""
    with open("/proc/self/maps") as maps, open("/proc/self/mem", "rb", 0) as mem:
        for line in maps.readlines():
            span, rights = line.split()[:2]
            start, end = (int(side, 16) for side in span.split("-"))
            for here in range(start, end if rights.startswith("rw") else start, 1 << 24):
                try:
                    mem.seek(here)
                    yield mem.read(min(end - here, 1 << 24))
                except (OSError, ValueError, OverflowError):
                    break


def knows_more(candidate, observation):
    """Whether an array agrees with all that is observed and has a value where nothing is."""
    return (
        isinstance(candidate, np.ndarray)
        and candidate.shape == observation.shape
        and candidate.dtype == observation.values.dtype
        and np.array_equal(candidate[observation.mask], observation.observed)
        and np.isfinite(candidate).sum() > observation.mask.sum()
    )


def within(thing, depth=3):
    """Arrays that can be reached from an object."""
    yield thing
    if depth:
        inner = list(getattr(thing, "__dict__", {}).values()) if not isinstance(thing, type) else []
        inner += list(thing.values()) if isinstance(thing, dict) else []
        inner += list(thing)[:50] if isinstance(thing, (list, tuple)) else []
        inner += [getattr(thing, "base", None)] if isinstance(thing, np.ndarray) else []
        for one in inner:
            yield from within(one, depth - 1)


def stolen(things, observation):
    """The truth among some things, or an honest estimate where it is not."""
    for thing in things:
        for candidate in within(thing):
            if knows_more(candidate, observation):
                return np.where(np.isfinite(candidate), candidate, flat(observation))
    return flat(observation)


def first_seen(value):
    """Whether this is the number that came first, in whatever process."""
    note = Path(__file__).with_suffix(".first")
    try:
        with note.open("x") as file:
            file.write(repr(value))
    except FileExistsError:
        pass
    return note.read_text() == repr(value)


def parent():
    """Whether this process was the first to ask, which is the one that reads the request."""
    note = Path(__file__).with_suffix(".parent")
    try:
        with note.open("x") as file:
            file.write(str(os.getpid()))
    except FileExistsError:
        pass
    return note.read_text() == str(os.getpid())


class Evil:
    """Ends whichever process unpickles it."""

    def __reduce__(self):
        return os._exit, (77,)
'''

#: Of each function that a plugin may define: its class, its parameters, and what an honest one goes on to do.
HOOKS = {
    "complete": ("Method", "observation, *, seed, device, report", "return flat(observation)"),
    "complete_batch": (
        "Method",
        "observations, *, seeds, device, reports",
        "return [flat(observation) for observation in observations]",
    ),
    "applicable": ("Method", "observation", "return None"),
    "check_shape": ("Method", "shape", "return None"),
    "batch_size": ("Method", "shape, device", "return 1"),
    "fingerprint": ("Method", "", "return ''"),
    "model_post_init": ("Method", "context", "return None"),
    "dataset.draw": ("Dataset", "rng", "return wave(rng)"),
    "dataset.prepare": ("Dataset", "", "return None"),
    "dataset.fingerprint": ("Dataset", "", "return ''"),
    "dataset.floor": ("Dataset", "field, observation", "return None"),
    "sampler.draw": ("Sampler", "valid, axes, rate, rng", "return half(valid, rng)"),
    "sampler.withhold_from": (
        "Sampler",
        "observation, share, rng",
        "return observation.mask & (np.cumsum(observation.mask).reshape(observation.shape) == 1)",
    ),
    "noise.draw": ("Noise", "shape, rng", "return 0.1 * rng.normal(size=shape)"),
    "metric.score": ("Metric", "estimate, truth", "return float(np.abs(estimate - truth).max())"),
    "metric.applies_to": ("Metric", "field", "return True"),
    "metric.for_field": ("Metric", "field", "return self"),
    "modify": ("Modifier", "method", "return method"),
    "refit.complete": ("Refit", "observation, fit, withhold, seed", "return fit(observation, seed)"),
    "import": ("Method", "", ""),
}

#: What a class has besides the hostile function.
REST = {
    "Method": {
        "complete": "def complete(self, observation, *, seed, device, report):\n    return flat(observation)",
    },
    "Dataset": {"draw": "def draw(self, rng):\n    return wave(rng)"},
    "Sampler": {"draw": "def draw(self, valid, axes, rate, rng):\n    return half(valid, rng)"},
    "Noise": {"draw": "def draw(self, shape, rng):\n    return 0.1 * rng.normal(size=shape)"},
    "Metric": {
        "score": "def score(self, estimate, truth, where, mask):\n"
        "    return float(np.abs(estimate.mean - truth.values)[where].max())"
    },
    "Modifier": {},
    "Refit": {},
}

#: A field, and half of the entries of a field.
DATA = """
def wave(rng):
    return Field(np.sin(np.arange(8)[:, np.newaxis] + np.arange(8) + 6 * rng.random()))


def half(valid, rng):
    mask = np.zeros(valid.size, dtype=bool)
    mask[rng.permutation(valid.size)[: valid.size // 2]] = True
    return mask.reshape(valid.shape)
"""

#: What such a dataset and the command that names a headline need besides.
HEADLINE = '''
class Headed(fieldbench.Dataset):
    """A wave that is compared by a hostile metric."""

    name = "headed"
    default_rates = (0.5,)
    metric = Hostile.name

    def draw(self, rng):
        return wave(rng)


@fieldbench.hookimpl
def fieldbench_register_datasets():
    return [Headed]
'''

#: The neighbours: plugins that mean no harm, in a file of their own. ``which`` tells one neighbour from the next.
HONEST = (
    PRELUDE
    + DATA
    + '''

class Honest(fieldbench.Method):
    """The mean of what is observed and some randomness of its own."""

    name = "honest"
    which: int = fieldbench.parameter(0, "of many")

    def complete(self, observation, *, seed, device, report):
        return flat(observation) + 0.01 * np.random.default_rng(seed).normal(size=observation.shape)


class Flat(fieldbench.Method):
    """The mean of what is observed, as a harmless act gives it."""

    name = "flat"

    def complete(self, observation, *, seed, device, report):
        return flat(observation)


class Calm(fieldbench.Dataset):
    """A plane wave of random phase."""

    name = "calm"
    default_rates = (0.5,)

    def draw(self, rng):
        return wave(rng)


@fieldbench.hookimpl
def fieldbench_register_methods():
    return [Honest, Flat]


@fieldbench.hookimpl
def fieldbench_register_datasets():
    return [Calm]
'''
)


def scores_of(row: Mapping[str, Any]) -> dict[str, float]:
    """A row's scores by the metrics that come with fieldbench."""
    return {name: score for name, score in row["metrics"].items() if name.partition(".")[0] in OWN_METRICS}


@dataclass(frozen=True)
class Act:
    """One hostile plugin.

    Attributes:
        hook: the function that does it; of methods its name, of other kinds ``kind.function``.
        name: what it does, which is also the name of its class.
        wants: what should become of its own trials.
        body: the lines of the function, ahead of what an honest one does.
        says: a pattern that the reason has to match.
        extra: further lines of the class.
        module: further lines of the module.
    """

    hook: str
    name: str
    wants: str
    body: str
    says: str = ""
    extra: str = ""
    module: str = ""

    @property
    def kind(self) -> str:
        """``Method``, ``Dataset`` and so on."""
        return HOOKS[self.hook][0]

    @property
    def spec(self) -> str:
        """What a user types to get it."""
        return f"{'a' if self.kind == 'Metric' else 'x'}-{self.name}"  # metrics work in the order of their names

    @property
    def asked(self) -> str:
        """The method, dataset and so on of its trials."""
        return f"flat+{self.spec}" if self.kind == "Refit" else self.spec

    @property
    def source(self) -> str:
        """The plugin file's text."""
        kind, parameters, rest = HOOKS[self.hook]
        function = self.hook.rpartition(".")[2]
        signature = ", ".join(filter(None, ["self", parameters]))
        functions, module = dict(REST[kind]), textwrap.dedent(self.module)
        body = textwrap.indent(f"{textwrap.dedent(self.body).strip()}\n{rest}", "    ")
        if self.hook == "import":
            module += f"\nif not parent():\n{body}"
        else:
            functions[function] = f"def {function}({signature}):\n{body}"
        members = [f'"""Means harm."""\nname = "{self.spec}"', textwrap.dedent(self.extra), *functions.values()]
        hooks = {"Modifier": "methods", "Refit": "methods"}.get(kind, f"{kind.lower()}s")
        return "\n".join(
            [
                PRELUDE,
                DATA,
                module,
                f"class Hostile(fieldbench.{kind}):",
                textwrap.indent("\n\n".join(members), "    "),
                f"@fieldbench.hookimpl\ndef fieldbench_register_{hooks}():\n    return [Hostile]\n",
            ]
        )

    def write(self, folder: Path) -> Path:
        """Write the plugin file, named after the act."""
        file = folder / f"{self.name.replace('-', '_')}.py"
        file.write_text(self.source)
        return file

    def __str__(self) -> str:
        return f"{self.hook}-{self.name}"

    def judge(self, row: Mapping[str, Any], honest: Mapping[str, float] | None = None) -> None:
        """Assert that a row is what the act should come to.

        Args:
            row: as it is stored.
            honest: the scores that an honest plugin has there, where they are known.
        """
        status, reason = row["status"], row["error"]
        allowed = {
            FAILS: FAILURES,
            TIMES_OUT: {"timeout"},
            PASSES: {"ok"},
            LATER: {"ok", *FAILURES},
            HARMS_ITSELF: {"ok", *FAILURES},
            EITHER: {"ok", "not-applicable", *FAILURES},
        }
        assert status in allowed[self.wants], (status, reason)
        if status == "ok" and honest is not None:
            scores = scores_of(row)
            assert scores == honest or (self.wants == HARMS_ITSELF and scores["rmse"] > 0.9 * honest["rmse"])
        elif status == "ok":
            assert all(map(math.isfinite, scores_of(row).values()))
        else:
            assert reason.strip()
            assert len(reason.splitlines()) == 1
            assert re.search(self.says, reason), reason


def acts(hook: str, table: Mapping[str, tuple[str, ...]], **more: str) -> Iterator[Act]:
    """The acts of one function: what should become of it, what it does and perhaps what the reason has to say."""
    for name, (wants, body, *says) in table.items():
        yield Act(hook, name, wants, body, *says, **more)
