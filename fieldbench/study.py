"""A search for a method's parameters on development trials, kept in a file that a later call goes on with."""

from __future__ import annotations

import contextlib
import hashlib
import json
import logging
import math
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from fieldbench.errors import FieldbenchError, RequestError, one_line
from fieldbench.execution import Options, Pool, slots
from fieldbench.execution.preflight import examine
from fieldbench.method import Method, Try, Tuner
from fieldbench.plan import Plan, Request
from fieldbench.plugin_code import faults
from fieldbench.records import OK, Record, Trial, canonical
from fieldbench.registry import Registry, Sources
from fieldbench.search import Space
from fieldbench.spec import Value, parse_value
from fieldbench.store.secret import label
from fieldbench.tuning import Study, TriedPoint, as_row, in_words

_LOG = logging.getLogger(__name__)

#: Told after every point: which, what came of it, and the least error so far.
Told = Callable[[Mapping[str, Value], TriedPoint, float], None]


class Development(Tuner):
    """The error of one point at withheld entries; nothing else is tried, and nothing fitted to all."""

    name = "development"
    revision = "1"
    fits_again = False

    def search(self, space: Space, attempt: Try, seed: int) -> None:
        return None


@dataclass(frozen=True)
class Found:
    """What a search came to.

    Attributes:
        method, values: the spec with the chosen values, to be pasted, and these alone.
        error, before: the mean error of these values, and of the method's own, by ``metric``.
        points, seconds: how many points were tried, and how long all fits took.
        study: the file that keeps what was tried.
    """

    method: str
    values: Mapping[str, Value]
    error: float
    before: float
    points: int
    seconds: float
    metric: str
    study: Path


def development_seed(seed: int) -> int:
    """The base seed of development trials: 128 bits, so that no seed of a request, which has 63, is among them."""
    return int(hashlib.sha256(f"fieldbench development {seed}".encode()).hexdigest()[:32], 16) | 1 << 127


def tune(
    method: str,
    dataset: str,
    *,
    tuner: str = "tuned",
    rate: float | None = None,
    sampler: str | None = None,
    noise: str = "none",
    trials: int = 3,
    seed: int = 0,
    study: str | Path | None = None,
    sources: Sources | None = None,
    options: Options | None = None,
    tell: Told = lambda values, outcome, least: None,
) -> Found:
    """Search for the parameters of a method with the least mean error at withheld entries of development trials.

    Development trials have seeds of their own. Of each, observed entries alone are used: a share of them is withheld,
    and the method is fitted to the rest.

    Args:
        method: spec of the method; values that differ from their defaults are kept.
        dataset, rate, sampler, noise: what it is tuned on; rate and sampler are the dataset's own by default.
        tuner: spec of the modifier that says what to try.
        trials: development trials of each point.
        seed: another number gives other development trials.
        study: file that keeps what was tried; a call with the same file and more budget goes on.
        sources, options: as for :class:`fieldbench.session.Session`.
        tell: told after every point.

    Raises:
        RequestError: for anything wrong in it, a study of something else, or where no point could be fitted.
    """
    sources = Sources.from_environment() if sources is None else sources
    by, plain = _asked(Registry(sources), tuner, method)
    registry = Registry(replace(sources, classes=(*sources.classes, Development)))
    trial_of = Development(budget=1, share=by.share, folds=by.folds, trying=by.trying)
    base = label(development_seed(seed))
    options = replace(options or Options(), secrets={base: development_seed(seed)})

    def planned(values: Mapping[str, Value]) -> Plan:
        spec = plain.with_values(values) + trial_of
        rates, samplers = [] if rate is None else [rate], [] if sampler is None else [sampler]
        request = Request(
            methods=[str(spec)], datasets=[dataset], rates=rates, samplers=samplers, noises=[noise], trials=trials,
            seed=base,
        )  # fmt: skip
        return Plan(request, registry)

    first = planned({})
    if len(first.cells) > 1:
        raise RequestError(f"dataset {dataset} is usually observed at several rates; name one by --rate")
    space = plain.space()
    (cell,) = first.cells
    observed = {name: getattr(cell, name) for name in ("dataset", "sampler", "noise", "rate")}
    described = {"method": str(plain), **observed, "trials": trials, "seed": seed}
    described |= {"share": by.share, "folds": by.folds, "trying": by.trying}
    path = Path(study) if study is not None else _default_path(plain, dataset, described)
    with Pool(slots(options), registry, options) as pool:
        first.fingerprint = pool.fingerprint
        examine(first, pool)
        journal = _Journal(path, {**described, "keys": [trial.key for trial in first]})
        metric = registry.dataset(dataset).metric

        def evaluate(values: Mapping[str, Value]) -> TriedPoint:
            outcome = journal.known.get(in_words(values))
            if outcome is None:
                plan = planned(values)
                plan.fingerprint = pool.fingerprint
                outcome = _outcome(_records(pool, list(plan)))
                journal.write(as_row(values, outcome))
            least = min([outcome.error, *(done.error for _, done in search.tried.values())])
            tell(values, outcome, least)
            return outcome

        search = Study(by, space, evaluate)
        try:
            with faults(lambda error: _told(error, by)):
                chosen = search.run(seed % 2**32)
        except KeyboardInterrupt:
            _LOG.warning(f"interrupted; {path} has what was tried, and the same command goes on")
            raise
    outcomes = [outcome for _, outcome in search.tried.values()]
    error = min(outcome.error for outcome in outcomes)
    if not math.isfinite(error):
        raise RequestError(f"{method} on {dataset}: {outcomes[0].reason}")
    text = str(plain.with_values(chosen))
    return Found(text, chosen, error, outcomes[0].error, len(outcomes), search.seconds, metric, path)


def _asked(registry: Registry, tuner: str, method: str) -> tuple[Tuner, Method]:
    """The tuner and the method that it is to tune, which must have something left to tune."""
    by, plain = registry.modifier(tuner), registry.method(method)
    if not isinstance(by, Tuner):
        raise RequestError(f"{tuner}: it tunes nothing; name a tuner, such as tuned")
    if refits := registry.refits(method):
        raise RequestError(f"{method}: a search fits the method alone; leave out +{refits[0].name}")
    by.modify(plain)
    if not plain.space().searches:
        raise RequestError(f"{method}: its parameters are given, so that +{by.name} has nothing to choose")
    return by, plain


def _told(error: BaseException, by: Tuner) -> Exception:
    """What is raised in place of a tuner's mistake; what else goes wrong is told as it is."""
    if isinstance(error, FieldbenchError | OSError | KeyboardInterrupt):
        raise error
    return RequestError(f"+{by.name}: {one_line(error)}")


def _default_path(method: Method, dataset: str, described: Mapping[str, Any]) -> Path:
    digest = hashlib.sha256(canonical(described).encode()).hexdigest()[:8]
    name = "-".join([method.name, *(modifier.name for modifier in method.modifiers), dataset.partition("[")[0]])
    return Path("studies") / f"{name.partition(':')[0]}-{digest}.jsonl"


def _records(pool: Pool, trials: list[Trial]) -> list[Record]:
    """The records of some trials, run side by side; a KeyboardInterrupt if the processes were given up."""
    with ThreadPoolExecutor(len(trials)) as threads:
        outcomes = list(threads.map(lambda trial: pool.run([trial]), trials))
    records = [record for outcome in outcomes for record in outcome.records]
    if len(records) < len(trials):
        raise KeyboardInterrupt
    return records


def _outcome(records: list[Record]) -> TriedPoint:
    """The mean error of some development trials."""
    seconds = sum(record.seconds or 0.0 for record in records)
    lost = next((record for record in records if record.status != OK), None)
    if lost is not None:
        return TriedPoint(math.inf, seconds, f"{lost.status}: {lost.error}")
    errors = [record.diagnostics["tuning"]["points"][0]["error"] for record in records]
    if None in errors:
        return TriedPoint(math.inf, seconds, "its error is not a number")
    return TriedPoint(sum(errors) / len(errors), seconds)


class _Journal:
    """A file with one line for what is sought, and one for every point that was tried."""

    def __init__(self, path: Path, described: dict[str, Any]) -> None:
        """A file of another search, or of another version of what takes part in it, is refused."""
        self._path = path
        self.known: dict[str, TriedPoint] = {}
        if not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            self.write(described)
            return
        lines = path.read_text(encoding="utf-8", errors="replace").splitlines(keepends=True)
        try:
            head = dict(json.loads(lines[0]))
        except (ValueError, TypeError, IndexError):
            raise RequestError(f"{path} is not a study; name another file by --study") from None
        different = next((name for name, value in described.items() if head.get(name) != value), None)
        if different is not None:
            other = f"{different} {head.get(different)}, not {described[different]}"
            about = "another version of a plugin, or other data" if different == "keys" else other
            raise RequestError(f"{path} is a study with {about}; name another file by --study")
        for line in lines[1:]:
            with contextlib.suppress(ValueError, KeyError, TypeError, AttributeError):  # a line that was cut short
                row = json.loads(line)
                values = {str(key): parse_value(text) for key, text in row["values"].items()}
                error = math.inf if row["error"] is None else float(row["error"])
                self.known[in_words(values)] = TriedPoint(error, float(row["seconds"]), str(row.get("reason", "")))
        if not lines[-1].endswith("\n"):
            with path.open("a", encoding="utf-8") as file:
                file.write("\n")

    def write(self, row: Mapping[str, Any]) -> None:
        """Add what is sought, or what came of a point."""
        with self._path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(row) + "\n")
