"""What datasets, samplers, noises and metrics do to the judge that draws and scores, by the function that does it."""

from __future__ import annotations

import textwrap

from tests.hostile.commands import Group
from tests.hostile.plugins import EITHER, FAILS, LATER, PASSES, acts


def later(body: str) -> str:
    """The act, once the look at the data before a run is over: at any other draw than the very first."""
    return "if not first_seen(rng.random()):\n" + textwrap.indent(textwrap.dedent(body).strip(), "    ")


ENDS = {
    "exits": (FAILS, "sys.exit(0)"),
    "ends": (FAILS, "os._exit(0)"),
    "interrupts": (FAILS, "raise KeyboardInterrupt"),
    "segfault": (FAILS, "segfault()"),
}


def ends(prefix: str) -> dict[str, tuple[str, str]]:
    """The four ways to end a process, and the one that only another process can end, named after the function."""
    return {f"{prefix}-{name}": act for name, act in ENDS.items()}


DATASETS = [
    *acts(
        "dataset.draw",
        {
            **ends("draw"),
            "draw-kills-itself": (FAILS, "os.killpg(0, signal.SIGKILL)"),
            "draw-closes-everything": (FAILS, "os.closerange(0, 256)"),
            "draw-hogs-memory": (FAILS, "hog()"),
            "draw-raises": (LATER, later("raise ValueError")),
            "draw-ends-later": (EITHER, "threading.Timer(0.5, os._exit, (0,)).start()"),
            "draw-closes-what-it-tells-by": (
                FAILS,
                """
                os.close(5)
                os._exit(0)
                """,
            ),
            "draw-tells-no-more": (
                FAILS,
                """
                import fcntl
                fcntl.fcntl(5, fcntl.F_SETFL, os.O_APPEND)
                segfault()
                """,
            ),
            "draw-values-of-a-subclass": (EITHER, "return Field(wave(rng).values.view(np.matrix))"),
            "draw-text-exits": (
                LATER,
                later("""
                class Odd(Exception):
                    def __str__(self):
                        sys.exit(0)
                raise Odd
                """),
            ),
            "draw-text-escapes": (LATER, later("raise ValueError('\\x1b[2J first\\nsecond')")),
            "draw-nan": (LATER, later("return Field(np.full((8, 8), np.nan))")),
            "draw-array": (LATER, later("return np.zeros((8, 8))")),
            "draw-none": (LATER, later("return None")),
            "draw-evil": (LATER, later("return Evil()")),
            "draw-class": (LATER, later("return Field")),
            "draw-mock": (
                LATER,
                later("""
                from unittest.mock import MagicMock
                return MagicMock()
                """),
            ),
            "draw-changes-shape": (EITHER, later("return Field(np.ones((2, 3, 4)))")),
            "draw-changes-unit": (EITHER, later("return Field(np.ones((8, 8)), unit='\\x1b[31mm')")),
            "draw-unit-is-no-text": (EITHER, later("return Field(np.ones((8, 8)), unit=Evil(), quantity=5)")),
            "draw-known-is-evil": (EITHER, later("return Field(np.ones((8, 8)), metadata={'n': Evil()})")),
            "draw-floor-nan": (EITHER, later("return Field(np.ones((8, 8)), log_floor=float('nan'))")),
            "draw-floor-text": (EITHER, later("return Field(np.ones((8, 8)), log_floor='low')")),
            "draw-field-lies": (
                LATER,
                later(
                    """
                class Odd(Field):
                    @property
                    def valid(self):
                        return np.ones((3, 3), bool)
                return Odd(np.ones((8, 8)))
                """
                ),
            ),
            "draw-axes-exit": (
                LATER,
                later(
                    """
                class Odd(Axis):
                    def __len__(self):
                        sys.exit(0)
                return Field(np.ones((8, 8)), (Odd('x', np.arange(8)),) * 2)
                """
                ),
            ),
            "draw-infinite-afterwards": (
                EITHER,
                later("""
                field = wave(rng)
                field.values.setflags(write=True)
                field.values[:] = np.inf
                return field
                """),
            ),
            "draw-huge": (LATER, later("return Field(np.broadcast_to(0.0, (2**17, 2**17)))")),
            "draw-differs-by-call": (EITHER, "return Field(np.random.default_rng().normal(size=(8, 8)))"),
            "draw-forks": (EITHER, "os.fork()"),
            "draw-daemon": (PASSES, "daemon()"),
            "draw-prints": (PASSES, "print('\\x1b[2J' * 10**6, flush=True)"),
            "draw-warnings": (
                PASSES,
                """
                answer = wave(rng)
                warnings.simplefilter('error')
                np.seterr(all='raise')
                return answer
                """,
            ),
            "draw-patches-rng": (
                EITHER,
                """
                answer = wave(rng)
                np.random.default_rng = lambda *_: np.random.Generator(np.random.PCG64(0))
                return answer
                """,
            ),
            "draw-patches-numpy": (
                EITHER,
                """
                answer = wave(rng)
                np.mean = np.sqrt = lambda *_, **__: np.float64(0)
                return answer
                """,
            ),
            "draw-patches-metric": (
                EITHER,
                """
                import fieldbench.metric as m
                m.RMSE.score = lambda *_: 0.0
                """,
            ),
            "draw-patches-field": (
                EITHER,
                later("""
                answer = wave(rng)
                Field.valid = property(lambda self: self.values > 0)
                return answer
                """),
            ),
            "draw-patches-candidates": (
                EITHER,
                """
                for module in list(sys.modules.values()):
                    for value in list(getattr(module, '__dict__', {}).values()):
                        if isinstance(value, type) and getattr(value, 'name', '') == 'calm':
                            value.draw = lambda self, rng: Field(np.ones((8, 8)))
                """,
            ),
            "draw-alarm": (EITHER, "signal.setitimer(signal.ITIMER_REAL, 0.02)"),
            "draw-recursion": (EITHER, "sys.setrecursionlimit(60)"),
        },
    ),
    *acts("dataset.prepare", ends("prepare")),
    *acts(
        "dataset.fingerprint",
        {
            **ends("data-fingerprint"),
            "data-fingerprint-without-end": (EITHER, "return 'data' * 10**8"),
            "data-fingerprint-none": (EITHER, "return None"),
            "data-fingerprint-evil": (EITHER, "return Evil()"),
            "data-fingerprint-never-the-same": (EITHER, "return os.urandom(8).hex()"),
        },
    ),
]

#: How a plugin speaks for the judge that it is called in.
_FORGE = """
import fieldbench.execution.judge as judge

said_by_itself = judge.encode


def forge(name, value):
    judge.encode = lambda said: said_by_itself({**said, name: value} if name in said else said)


def forge_records(**changes):
    judge.encode = lambda said: said_by_itself(
        {**said, 'records': [{**one, **changes} for one in said['records']]} if 'records' in said else said
    )
"""

FORGED_DRAWS = [
    *acts(
        "dataset.draw",
        {
            "draw-forges-no-list": (FAILS, "forge('records', 5)"),
            "draw-forges-fewer": (FAILS, "forge('records', [])"),
            "draw-forges-a-name": (EITHER, "forge_records(odd=1)"),
            "draw-forges-a-status": (FAILS, "forge_records(status='fine')"),
            "draw-forges-scores": (FAILS, "forge_records(metrics={'rmse': 'good'})"),
            "draw-forges-seconds": (FAILS, "forge_records(seconds='none')"),
            "draw-forges-diagnostics": (FAILS, "forge_records(diagnostics=[1])"),
            "draw-forges-a-shape": (FAILS, "forge_records(diagnostics={'shape': 5})"),
            "draw-forges-what-is-missing": (FAILS, "forge_records(diagnostics={'not_scored': 'all'})"),
            "draw-forges-a-reason": (FAILS, "forge_records(error={'a': 1})"),
            "draw-forges-a-fit": (FAILS, "forge('fit', 5)"),
            "draw-forges-no-task": (FAILS, "forge('fit', [])"),
            "draw-forges-tasks": (FAILS, "forge('fit', [{'observation': 5}])"),
            "draw-forges-a-look": (FAILS, "forge('applies', 'no')"),
            "draw-forges-a-unit": (FAILS, "forge('unit', 5)"),
            "draw-forges-an-observation": (FAILS, "forge('observation', 5)"),
            "draw-forges-no-frame": (FAILS, "judge.encode = lambda said: b'nonsense' * 99"),
            "draw-forges-the-stage": (
                FAILS,
                r"""
                judge.note(f'metric \x1b[2J\nfirst dataset {self.name}')
                os._exit(0)
                """,
            ),
            "draw-blames-a-metric": (
                FAILS,
                """
                judge.note('metric rmse')
                os._exit(0)
                """,
            ),
            "draw-fits-for-ever": (
                LATER,
                """
                once = judge._Judge._complete

                def complete(self, tasks, recorders):
                    while time.monotonic() < THE_END:
                        once(self, tasks, recorders)

                judge._Judge._complete = complete
                """,
            ),
            "covariates-name-escapes": (
                EITHER,
                "return Field(np.ones((8, 8)), covariates={'\\x1b[2J\\n': np.ones((8, 8))})",
            ),
            "covariates-evil": (LATER, later("return Field(np.ones((8, 8)), covariates={'x': Evil()})")),
            "covariates-nan": (
                LATER,
                later("return Field(np.ones((8, 8)), covariates={'x': np.ones((8, 8)) * np.nan})"),
            ),
            "metadata-huge": (LATER, later("return Field(np.ones((8, 8)), metadata={'n': 10**5000})")),
        },
        module=_FORGE,
    ),
]

FLOORS = [
    *acts(
        "dataset.floor",
        {
            **{f"floor-{name}": (PASSES, body) for name, (_, body) in ENDS.items()},
            "floor-loops": (PASSES, "loop()"),
            "floor-raises": (PASSES, "raise ValueError('\\x1b[2J first\\nsecond')"),
            "floor-number": (PASSES, "return 5"),
            "floor-evil": (PASSES, "return fieldbench.Estimate(Evil())"),
            "floor-nan": (PASSES, "return fieldbench.Estimate(np.full((8, 8), np.nan))"),
            "floor-forges-scores": (
                PASSES,
                """
                forge('scores', {'rmse': 'low'})
                return fieldbench.Estimate(np.zeros((8, 8)))
                """,
            ),
            "floor-forges-a-number": (
                PASSES,
                """
                forge('scores', 5)
                return fieldbench.Estimate(np.zeros((8, 8)))
                """,
            ),
        },
        module=_FORGE,
    ),
]

SLOW_DATASETS = [
    *acts(
        "dataset.draw",
        {"draw-loops": (FAILS, "loop()"), "draw-stops-itself": (FAILS, "os.kill(os.getpid(), signal.SIGSTOP)")},
    ),
    *acts("dataset.prepare", {"prepare-loops": (EITHER, "loop()")}),
    *acts("dataset.fingerprint", {"data-fingerprint-sleeps-deaf": (FAILS, "sleep_deaf()")}),
]

SAMPLERS = [
    *acts(
        "sampler.draw",
        {
            **ends("mask"),
            "mask-raises": (LATER, later("raise ValueError")),
            "mask-none": (LATER, later("return None")),
            "mask-evil": (LATER, later("return Evil()")),
            "mask-empty": (LATER, later("return np.zeros(valid.shape, bool)")),
            "mask-too-small": (LATER, later("return np.ones((3, 3), bool)")),
            "mask-one-row": (LATER, later("return np.ones((1, 8), bool)")),
            "mask-scalar": (LATER, later("return True")),
            "mask-one-axis-more": (LATER, later("return np.ones((8, 8, 8), bool)")),
            "mask-floats": (LATER, later("return np.ones(valid.shape)")),
            "mask-integers": (LATER, later("return np.ones(valid.shape, int)")),
            "mask-objects": (LATER, later("return np.ones(valid.shape, object)")),
            "mask-texts": (LATER, later("return np.full(valid.shape, 'yes')")),
            "mask-masked": (LATER, later("return np.ma.masked_all(valid.shape, bool)")),
            "mask-subclass": (
                EITHER,
                later(
                    """
                class Odd(np.ndarray):
                    def __and__(self, other):
                        sys.exit(0)
                    __rand__ = __and__
                return half(valid, rng).view(Odd)
                """
                ),
            ),
            "mask-patches-rng": (
                EITHER,
                """
                answer = half(valid, rng)
                np.random.default_rng = None
                return answer
                """,
            ),
            "mask-patches-candidates": (
                EITHER,
                """
                import fieldbench.sampler as s
                s.RandomEntries.draw = lambda self, valid, *_: valid
                s.observe = None
                """,
            ),
            "mask-spoils-the-field": (
                PASSES,
                """
                answer = half(valid, rng)
                try:
                    valid.setflags(write=True)
                    valid[:] = False
                except ValueError:
                    pass
                return answer
                """,
            ),
            "mask-spoils-the-axes": (
                PASSES,
                """
                for axis in axes:
                    try:
                        axis.coordinates.setflags(write=True)
                        axis.coordinates[:] = 0.0
                    except ValueError:
                        pass
                """,
            ),
        },
    ),
]

WITHHELD = [
    *acts(
        "sampler.withhold_from",
        {
            **ends("withhold"),
            "withhold-raises": (FAILS, "raise ValueError"),
            "withhold-none": (FAILS, "return None"),
            "withhold-all": (FAILS, "return observation.mask"),
            "withhold-nothing": (EITHER, "return ~observation.mask & observation.mask"),
            "withhold-the-unobserved": (EITHER, "return ~observation.mask"),
            "withhold-wrong-shape": (FAILS, "return np.ones((3, 3), bool)"),
            "withhold-one-row": (FAILS, "return np.eye(8, dtype=bool)[0]"),
            "withhold-floats": (FAILS, "return np.ones(observation.shape)"),
            "withhold-evil": (FAILS, "return Evil()"),
            "withhold-widens-the-mask": (
                EITHER,
                """
                observation.mask.setflags(write=True)
                observation.mask[:] = True
                """,
            ),
        },
    ),
]

NOISES = [
    *acts(
        "noise.draw",
        {
            **ends("noise"),
            "noise-raises": (LATER, later("raise ValueError")),
            "noise-none": (LATER, later("return None")),
            "noise-evil": (LATER, later("return Evil()")),
            "noise-nan": (LATER, later("return np.full(shape, np.nan)")),
            "noise-infinite": (LATER, later("return np.full(shape, np.inf)")),
            "noise-complex": (LATER, later("return np.full(shape, 1j)")),
            "noise-too-small": (LATER, later("return np.zeros((3, 3))")),
            "noise-one-row": (LATER, later("return rng.normal(size=(1, 8))")),
            "noise-scalar": (LATER, later("return 0.1")),
            "noise-one-axis-more": (LATER, later("return np.zeros((8, 8, 8))")),
            "noise-texts": (LATER, later("return np.full(shape, 'loud')")),
            "noise-dates": (LATER, later("return np.zeros(shape, 'timedelta64[s]')")),
            "noise-objects": (LATER, later("return np.full(shape, Evil())")),
            "noise-patches": (
                EITHER,
                later("""
                answer = rng.normal(size=shape)
                np.random.default_rng = np.where = None
                return answer
                """),
            ),
            "noise-patches-candidates": (
                EITHER,
                """
                for module in list(sys.modules.values()):
                    for value in list(getattr(module, '__dict__', {}).values()):
                        if isinstance(value, type) and getattr(value, 'name', '') == 'none':
                            value.draw = lambda self, shape, rng: np.ones(shape)
                """,
            ),
            "noise-subclass": (EITHER, "return np.ones(shape).view(np.matrix)"),
            "noise-masked": (LATER, later("return np.ma.masked_all(shape)")),
        },
    ),
]

SLOW_MASKS = [*acts("sampler.draw", {"mask-loops": (FAILS, "loop()")})]
SLOW_NOISES = [*acts("noise.draw", {"noise-sleeps-deaf": (FAILS, "sleep_deaf()")})]

METRICS = [
    *acts(
        "metric.score",
        {
            **ends("score"),
            "score-raises": (FAILS, "raise ValueError"),
            "score-text-exits": (
                FAILS,
                """
                class Odd(Exception):
                    def __str__(self):
                        sys.exit(0)
                raise Odd
                """,
            ),
            "score-none": (FAILS, "return None"),
            "score-text": (FAILS, "return 'good'"),
            "score-number-text": (EITHER, "return '0.0'"),
            "score-complex": (FAILS, "return 1j"),
            "score-array": (FAILS, "return estimate"),
            "score-huge": (FAILS, "return 10**5000"),
            "score-evil": (FAILS, "return Evil()"),
            "score-nan": (EITHER, "return float('nan')"),
            "score-float-exits": (
                FAILS,
                """
                class Odd:
                    def __float__(self):
                        sys.exit(0)
                return Odd()
                """,
            ),
            "score-zeroes-truth": (
                EITHER,
                """
                truth.setflags(write=True)
                truth[:] = 0.0
                """,
            ),
            "score-improves-estimate": (
                EITHER,
                """
                estimate.setflags(write=True)
                estimate[:] = truth
                """,
            ),
            "score-zeroes-what-it-views": (
                EITHER,
                """
                for array in (truth, estimate):
                    while array is not None:
                        if isinstance(array, np.ndarray):
                            array.setflags(write=True)
                            array[...] = 0.0
                        array = getattr(array, 'base', None)
                """,
            ),
            "score-zeroes-callers-arrays": (
                EITHER,
                """
                frame = sys._getframe()
                while frame:
                    for thing in list(frame.f_locals.values()):
                        for array in within(thing, 2):
                            if isinstance(array, np.ndarray) and array.dtype == float:
                                try:
                                    array.setflags(write=True)
                                    array[...] = 0.0
                                except ValueError:
                                    pass
                    frame = frame.f_back
                """,
            ),
            "score-patches-rng": (EITHER, "np.random.default_rng = None"),
            "score-patches-candidates": (
                EITHER,
                """
                import fieldbench.metric as m
                m.RMSE.score = m.MAE.score = lambda *_: 0.0
                """,
            ),
            "score-patches-numpy": (EITHER, "np.mean = np.sqrt = lambda *_, **__: np.float64(0)"),
            "score-ends-later": (EITHER, "threading.Timer(0.05, os._exit, (0,)).start()"),
            "score-prints": (EITHER, "print('\\x1b[2J', flush=True)"),
            "score-closes-everything": (FAILS, "os.closerange(0, 256)"),
            "score-forges-candidates": (EITHER, "forge('scores', {'rmse': 0.0, 'mae': 0.0, 'nmse': 0.0})"),
            "score-forges-that-candidates-failed": (EITHER, "forge('missing', {'rmse': 'gone', 'mae': 5})"),
            "score-forges-a-reason": (EITHER, "forge('missing', {self.name: ['\\x1b[2J', 5]})"),
            "score-forges-a-list": (EITHER, "forge('scores', [1, 2])"),
            "score-forges-texts": (EITHER, "forge('scores', {self.name: 'good'})"),
            "score-forges-no-frame": (EITHER, "judge.encode = lambda said: b'nonsense' * 99"),
            "score-names-nothing": (EITHER, "return {'': 0.0}"),
            "score-names-escape": (EITHER, "return {'\\x1b[2J\\n': 0.0}"),
        },
        module=_FORGE,
    ),
    *acts(
        "metric.applies_to",
        {
            **ends("applies"),
            "applies-raises": (FAILS, "raise ValueError"),
            "applies-array": (FAILS, "return np.zeros(2)"),
            "applies-evil": (EITHER, "return Evil()"),
            "applies-zeroes-the-field": (
                EITHER,
                """
                field.values.setflags(write=True)
                field.values[:] = 0.0
                """,
            ),
            "applies-empties-the-field": (EITHER, "object.__setattr__(field, 'valid', field.values > 9)"),
        },
    ),
    *acts(
        "metric.for_field",
        {
            **ends("adapts"),
            "adapts-to-none": (FAILS, "return None"),
            "adapts-to-text": (FAILS, "return 'rmse'"),
            "adapts-to-a-candidate": (
                EITHER,
                """
                import fieldbench.metric as m
                return m.RMSE()
                """,
            ),
        },
    ),
]

SLOW_METRICS = [
    *acts("metric.score", {"score-loops": (FAILS, "loop()")}),
    *acts("metric.applies_to", {"applies-sleeps-deaf": (FAILS, "sleep_deaf()")}),
]

GROUPS = {
    group.name: group
    for group in (
        Group("datasets", tuple(DATASETS), ("--jobs", "1")),
        Group("datasets-beside", tuple(DATASETS), ("--jobs", "2"), last=True),
        Group("forged-draws", tuple(FORGED_DRAWS), ("--jobs", "1")),
        Group("floors", tuple(FLOORS), ("--jobs", "1"), trials=1),
        Group("slow-datasets", tuple(SLOW_DATASETS), ("--jobs", "2"), trials=1),
        Group("samplers", tuple(SAMPLERS), ("--jobs", "1")),
        Group("withheld", tuple(WITHHELD), ("--jobs", "2", "--select", "holdout"), apart=True),
        Group("noises", tuple(NOISES), ("--jobs", "1")),
        Group("slow-masks", tuple(SLOW_MASKS), ("--jobs", "2"), trials=1),
        Group("slow-noises", tuple(SLOW_NOISES), ("--jobs", "2"), trials=1),
    )
}

METRIC_GROUPS = {
    group.name: group
    for group in (
        Group("metrics", tuple(METRICS), ("--jobs", "1")),
        Group("metrics-beside", tuple(METRICS), ("--jobs", "2")),
        Group("slow-metrics", tuple(SLOW_METRICS), ("--jobs", "2"), trials=1),
    )
}
