"""The fast CPU engine on two threads: the same bits as on one, whatever is fitted."""

from __future__ import annotations

import threading

import numpy as np
import pytest

from fieldbench import NullReport, Observation
from fieldbench_methods.fieldformer import engine as engine_module
from fieldbench_methods.fieldformer.halves import threads_for_halves
from fieldbench_methods.fieldformer.methods import MHTAP, TAP
from fieldbench_methods.tv import TotalVariation

SHAPE = (12, 11, 10)
METHODS = {
    "tap": TAP(window=3, stride=2, epochs=6),
    "mhtap": MHTAP(window=3, stride=2, heads=(2, 1, 2), epochs=6),
    "softmax": MHTAP(window=4, stride=2, activation="softmax", epochs=6),
    "tv": TAP(window=3, stride=2, epochs=6) + TotalVariation(weight=0.1),
    "tv chosen": TAP(window=4, stride=3, epochs=8) + TotalVariation(),
}


class Allows(NullReport):
    """A report that allows these numbers of threads, the same at every look or one after another."""

    def __init__(self, *threads):
        self._threads, self.looks = threads, 0

    @property
    def threads(self):
        self.looks += 1
        return self._threads[self.looks % len(self._threads)]


def observe(fibers, rate=0.3):
    grids = np.meshgrid(*(np.linspace(0, 1, size) for size in SHAPE), indexing="ij")
    field = sum(np.sin((2 + axis) * grid) for axis, grid in enumerate(grids))
    drawn = np.random.default_rng(0).random((*SHAPE[:2], 1) if fibers else SHAPE) < rate
    mask = np.broadcast_to(drawn, SHAPE)
    return Observation(np.where(mask, field, np.nan), mask)


@pytest.mark.parametrize("fibers", [False, True], ids=["scattered", "fibers"])
@pytest.mark.parametrize("case", METHODS)
def test_the_number_of_threads_changes_no_bit(case, fibers, monkeypatch):
    monkeypatch.setattr(engine_module, "WORTH_A_THREAD", 0)
    monkeypatch.setattr(engine_module, "BLOCK", 3000)  # several blocks of rows, each of more than one half
    observation, reports = observe(fibers), [Allows(1), Allows(2), Allows(1, 2, 3)]
    one, *others = (METHODS[case].complete(observation, seed=5, device="cpu", report=report) for report in reports)
    for other in others:
        np.testing.assert_array_equal(other, one)
    assert all(report.looks > 20 for report in reports)


@pytest.mark.parametrize("case", ["tap", "mhtap"])
def test_the_number_of_segments_changes_no_bit(case, monkeypatch):
    observation = observe(fibers=False)
    whole = METHODS[case].complete(observation, seed=5, device="cpu", report=NullReport())
    monkeypatch.setattr(engine_module, "SEGMENT_ROWS", 7)
    monkeypatch.setattr(engine_module, "SEGMENT_SUPPORT", 1)
    assert len(engine_module.segments(60, 5.0)) == 5
    np.testing.assert_array_equal(METHODS[case].complete(observation, seed=5, device="cpu", report=NullReport()), whole)


def test_a_report_that_does_not_speak_of_threads_is_given_one():
    class Plain:
        def due(self, step):
            return step == 6

        def __call__(self, step, estimate, **diagnostics):
            self.last = estimate

    observation, plain = observe(fibers=False), Plain()
    result = METHODS["tap"].complete(observation, seed=5, device="cpu", report=plain)
    np.testing.assert_array_equal(plain.last, result)


def test_halves_run_on_two_threads_where_allowed():
    allowed, threads_used = 1, []
    meet = threading.Barrier(2, timeout=20)

    def note():
        threads_used.append(threading.get_ident())

    with threads_for_halves(lambda: allowed) as both:
        both(note, note)
        assert threads_used == [threading.get_ident()] * 2
        allowed = 2
        both(meet.wait, meet.wait)  # neither passes without the other
        both(note, note)
        assert len(set(threads_used[2:])) == 2
        alive = threading.active_count()
    assert threading.active_count() == alive - 1


@pytest.mark.parametrize("failing", [0, 1])
def test_a_half_that_fails_is_told_of_after_both_have_ended(failing):
    done = threading.Event()

    def fail():
        raise ArithmeticError("this half fails")

    with threads_for_halves(lambda: 2) as both:
        halves = [fail, lambda: done.wait(0.05) or done.set()]
        with pytest.raises(ArithmeticError, match="this half fails"):
            both(*(halves if failing == 0 else reversed(halves)))
        assert done.is_set()
        both(done.clear, lambda: None)  # and the next two are served
        assert not done.is_set()
