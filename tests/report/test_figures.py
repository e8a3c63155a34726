"""Figures show the numbers of the run, and say so where they cannot."""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from fieldbench.errors import RequestError
from fieldbench.field import Axis, Field
from fieldbench.registry import Sources
from fieldbench.report.figures import KINDS, View, draw, save
from fieldbench.report.page.browser import make_album
from fieldbench.report.statistics import front, interval
from fieldbench.report.stored import StoredRun
from tests.report.conftest import written_run

pytest.importorskip("matplotlib", reason="figures come with the extra plots")


def scores(stored: StoredRun, method: str, rate: float) -> np.ndarray:
    frame = stored.frame
    return frame.loc[(frame["method"] == method) & (frame["rate"] == rate), "rmse"].dropna().to_numpy()


def test_rate_shows_means_and_student_s_intervals(stored: StoredRun) -> None:
    (figure,) = draw(stored, "rate").values()
    (ax,) = figure.axes
    lines = {line.get_label(): line for line in ax.lines}
    assert set(lines) == {"learner", "flat", "half", "fussy"}
    np.testing.assert_allclose(lines["learner"].get_xdata(), [20, 40])
    expected = [scores(stored, "learner", rate).mean() for rate in (0.2, 0.4)]
    np.testing.assert_allclose(lines["learner"].get_ydata(), expected)
    assert len(lines["fussy"].get_xdata()) == 1  # it failed at the lower rate
    band = ax.collections[0].get_paths()[0].vertices
    low, high = stats.t.interval(0.95, 3, expected[0], stats.sem(scores(stored, "learner", 0.2)))
    ends = band[np.isclose(band[:, 0], 20), 1]
    assert (ends.min(), ends.max()) == pytest.approx((low, high))
    assert ax.get_ylabel() == "RMSE (m/s)"


def test_epoch_shows_error_and_sparsity_beside_it(stored: StoredRun) -> None:
    figures = draw(stored, "epoch")
    assert len(figures) == 2
    left, right = next(iter(figures.values())).axes
    curves = [row["diagnostics"]["curve"] for row in stored.rows() if row["method"] == "learner" and row["rate"] == 0.2]
    np.testing.assert_allclose(left.lines[0].get_xdata(), [100, 200, 300])
    np.testing.assert_allclose(left.lines[0].get_ydata(), np.mean([curve["rmse"] for curve in curves], axis=0))
    np.testing.assert_allclose(right.lines[0].get_ydata(), [1, 0.5, 100 / 300])
    assert right.get_ylabel() == "non-zero core entries (%)"
    labels = {line.get_label() for line in left.lines}
    assert "flat" in labels  # a method without a curve is a level line


def test_epoch_shows_sparsity_at_the_steps_that_tell_it(write_run: Callable[..., StoredRun]) -> None:
    curve = {"step": [0, 100, 200, 300, 400], "rmse": [5.0, 4.0, 3.0, 2.0, 1.0]}
    part = {**curve, "support": [math.nan, math.nan, 0.5, math.nan, 0.25]}
    old = {**curve, "support": [0.5, 0.25]}  # as older versions wrote it, which does not say at which steps
    told = [("part", part, 0), ("part", part, 1), ("old", old, 0)]
    (figure,) = draw(
        write_run(
            *(
                {"method": method, "trial": trial, "metrics": {"rmse": 1.0}, "diagnostics": {"curve": diagnostics}}
                for method, diagnostics, trial in told
            )
        ),
        "epoch",
    ).values()
    left, right = figure.axes
    assert [line.get_ydata().tolist() for line in left.lines] == [[5, 4, 3, 2, 1]] * 2
    assert [line.get_xydata().tolist() for line in right.lines] == [[[200, 50], [400, 25]]]


def test_epoch_goes_on_where_a_trial_has_ended(write_run: Callable[..., StoredRun]) -> None:
    """What has ended keeps its estimate; a step that a trial passed over without a report counts for none."""
    curves = [
        {"step": [0, 100], "rmse": [5.0, 1.0]},
        {"step": [0, 50, 100, 200, 300], "rmse": [3.0, 9.0, 3.0, 2.0, 1.0]},
    ]
    told = {"early": curves, "apart": [{"step": [7], "rmse": [2.0]}, {"step": [9], "rmse": [4.0]}]}
    (figure,) = draw(
        write_run(
            *(
                {"method": method, "trial": trial, "metrics": {"rmse": 1.0}, "diagnostics": {"curve": curve}}
                for method, listed in told.items()
                for trial, curve in enumerate(listed)
            ),
            order=list(told),
        ),
        "epoch",
    ).values()
    early, apart = figure.axes[0].lines
    assert early.get_xydata().tolist() == [[0, 4], [100, 2], [200, 1.5], [300, 1]]
    assert apart.get_xydata().tolist() == [[9, 3]]
    assert apart.get_marker() not in ("", "None")  # a point alone is seen
    assert apart.get_markevery() is None
    assert "a trial that ended before others keeps its last error" in figure.get_suptitle().replace("\n", " ")


@pytest.mark.parametrize("kind", ["rate", "epoch"])
def test_bands_of_a_metric_that_may_be_negative_are_whole(write_run: Callable[..., StoredRun], kind: str) -> None:
    scores = [-3.0, -1.0, 1.0, 2.0]
    stored = write_run(
        *(
            {
                "rate": rate,
                "trial": trial,
                "metrics": {"snr": score},
                "diagnostics": {"curve": {"step": [0, 100], "snr": [score, score]}},
            }
            for rate in (0.1, 0.2)
            for trial, score in enumerate(scores)
        ),
        headline={"sea": "snr"},
    )
    figure = next(iter(draw(stored, kind).values()))
    low, high = stats.t.interval(0.95, 3, np.mean(scores), stats.sem(scores))
    band = figure.axes[0].collections[0].get_paths()[0].vertices[:, 1]
    assert (band.min(), band.max()) == pytest.approx((low, high))
    assert figure.axes[0].get_ylim()[0] <= low


@pytest.mark.parametrize("kind", ["rate", "epoch", "cost", "strips"])
def test_scores_that_are_not_finite_are_counted_and_the_others_shown(
    write_run: Callable[..., StoredRun], kind: str
) -> None:
    """The mean of a cell with an infinite score is infinite, so that it has none that could be shown."""
    scores = {"a": [8.0, 10.0], "b": [5.0, -math.inf]}
    stored = write_run(
        *(
            {
                "method": method,
                "rate": rate,
                "trial": trial,
                "metrics": {"snr": score},
                "seconds": 1.0 + trial,
                "diagnostics": {"curve": {"step": [0, 100], "snr": [1.0, score]}},
            }
            for method in scores
            for rate in (0.1, 0.2)
            for trial, score in enumerate(scores[method])
        ),
        headline={"sea": "snr"},
        higher_is_better=["snr"],
    )
    figure = next(iter(draw(stored, kind).values()))
    (ax,) = figure.axes
    title = figure.get_suptitle() or ax.get_title()
    count = 2 if kind == "rate" else 1  # at both rates, or in one setting
    assert title.endswith(f"\n{count} score{'s are' if count > 1 else ' is'} not finite: not shown")
    assert np.isfinite(ax.get_ylim()).all()
    if kind == "strips":
        (bar,) = ax.collections
        assert bar.get_segments()[0][:, 0].tolist() == [9, 9]
        assert [label.get_text() for label in ax.get_yticklabels()] == ["a", "b"]
    else:
        assert any(9.0 in line.get_ydata() for line in ax.lines)


def test_the_legend_names_the_methods_of_all_panels(write_run: Callable[..., StoredRun]) -> None:
    stored = write_run(
        *(
            {"method": method, "noise": noise, "rate": rate, "metrics": {"rmse": 1.0}}
            for method, noise in (("a", "none"), ("a", "gaussian[sigma=0.1]"), ("b", "gaussian[sigma=0.1]"))
            for rate in (0.1, 0.2)
        ),
        order=["a", "b", "none", "gaussian[sigma=0.1]"],
    )
    (figure,) = draw(stored, "rate").values()
    assert [[line.get_label() for line in ax.lines] for ax in figure.axes] == [["a"], ["a", "b"]]
    assert [text.get_text() for text in figure.legends[0].texts] == ["a", "b"]


@pytest.mark.parametrize("kind", ["rate", "epoch", "cost", "strips"])
def test_settings_whose_names_look_alike_have_figures_of_their_own(
    write_run: Callable[..., StoredRun], kind: str
) -> None:
    stored = write_run(
        *(
            {
                "dataset": dataset,
                "rate": rate,
                "metrics": {"rmse": 1.0},
                "diagnostics": {"curve": {"step": [0], "rmse": [1.0]}},
            }
            for dataset in ("file:run_1.nc", "file:run-1.nc")
            for rate in (0.1, 0.2)
        )
    )
    labels = [str(figure.get_label()) for figure in draw(stored, kind).values()]
    assert len(labels) == (2 if kind == "rate" else 4)
    assert {label.partition(",")[0] for label in labels} == {"file:run_1.nc", "file:run-1.nc"}


def test_strips_count_the_trials_that_there_are(write_run: Callable[..., StoredRun]) -> None:
    draws = [(0, 0), (0, 1), (2, 2), (2, 3)]
    stored = write_run(
        *({"seed": seed, "trial": trial, "metrics": {"rmse": 1.0 + trial}} for seed, trial in draws),
        *({"method": "b", "seed": seed, "trial": trial, "status": "failed"} for seed, trial in draws),
    )
    (figure,) = draw(stored, "strips").values()
    assert figure.get_suptitle() == "sea, rate 20 %, 4 trials"
    assert [label.get_text() for label in figure.axes[0].get_yticklabels()] == ["a", "b (4 without score)"]


def test_cost_joins_the_methods_that_none_beats_in_both() -> None:
    points = {"a": (1.0, 5.0), "b": (2.0, 6.0), "c": (3.0, 1.0), "d": (3.0, 0.5), "e": (9.0, 0.5)}
    brute = [
        name
        for name, (x, y) in points.items()
        if not any(u <= x and v <= y and (u, v) != (x, y) for u, v in points.values())
    ]
    assert front(points) == brute == ["a", "d"]


def costly(write_run: Callable[..., StoredRun], timed: str) -> StoredRun:
    """Three methods: a quick one, a better one that takes longer, and one that takes longest and is no better."""
    points = {"a": (1.0, 5.0), "b": (10.0, 2.0), "c": (20.0, 3.0)}
    return write_run(
        *(
            {"method": method, "trial": trial, "metrics": {"rmse": score}, "seconds": seconds}
            | {"machine": "m", "slots": 1, "timed": timed}
            for method, (seconds, score) in points.items()
            for trial in range(3)
        )
    )


def test_the_front_of_cost_is_a_step(write_run: Callable[..., StoredRun]) -> None:
    """What can be had in a time is the best score of any method that needs no more."""
    (figure,) = draw(costly(write_run, "alone"), "cost").values()
    (ax,) = figure.axes
    (step,) = [line for line in ax.lines if line.get_label() == "best by that time"]
    assert step.get_drawstyle() == "steps-post"
    assert step.get_xydata().tolist() == [[1, 5], [10, 2], [ax.get_xlim()[1], 2]]


def test_cost_has_no_front_where_seconds_do_not_compare(write_run: Callable[..., StoredRun]) -> None:
    (figure,) = draw(costly(write_run, "shared"), "cost").values()
    (ax,) = figure.axes
    assert "best by that time" not in [line.get_label() for line in ax.lines]
    assert "no front: these seconds do not compare: not all taken alone" in figure.get_suptitle().replace("\n", " ")
    assert [10, 2] in [point for line in ax.lines for point in line.get_xydata().tolist()]  # methods are there


def test_param_shows_the_error_at_each_value_by_rate(write_run: Callable[..., StoredRun]) -> None:
    scores = {
        (power, kind, rate, trial): power + 10 * rate + trial
        for power in (4.0, 1.0, 2.0)
        for kind in ("cubic", "linear")
        for rate in (0.1, 0.2)
        for trial in (0, 1)
    }
    rows = [
        {"method": f"a[power={power},kind={kind}]", "rate": rate, "trial": trial, "metrics": {"rmse": score}}
        for (power, kind, rate, trial), score in scores.items()
    ]
    figures = draw(write_run(*rows, {"method": "b", "metrics": {"rmse": 1.0}}), "param")
    assert list(figures) == ["param-a-power-sea", "param-a-kind-sea"]
    first, second = figures["param-a-power-sea"].axes
    assert (first.get_title("left"), second.get_title("left")) == ("kind cubic", "kind linear")
    lines = {line.get_label(): line.get_xydata().tolist() for line in first.lines}
    expected = {
        f"{rate:.0%}".replace("%", " %"): [[power, power + 10 * rate + 0.5] for power in (1, 2, 4)]
        for rate in (0.1, 0.2)
    }
    assert {name: np.round(points, 9).tolist() for name, points in lines.items()} == expected
    of_kind = figures["param-a-kind-sea"].axes[0]
    assert [label.get_text() for label in of_kind.get_xticklabels()] == ["cubic", "linear"]


def test_param_asks_for_several_values(stored: StoredRun) -> None:
    with pytest.raises(RequestError, match="no method of this run has several values of a parameter"):
        draw(stored, "param")


def test_settings_show_every_mean_with_its_interval(stored: StoredRun) -> None:
    (figure,) = draw(stored, "settings").values()
    assert [ax.get_title("left") for ax in figure.axes] == ["rate 20 %", "rate 40 %"]
    names = [label.get_text() for label in figure.axes[0].get_yticklabels()]
    assert sorted(names) == ["flat", "fussy", "half", "learner"]
    for ax, rate in zip(figure.axes, (0.2, 0.4), strict=True):
        positions = dict(zip(names, ax.get_yticks(), strict=True))
        means = {line.get_ydata()[0]: line.get_xdata()[0] for line in ax.lines}
        bars = {bar.get_segments()[0][0, 1]: bar.get_segments()[0][:, 0] for bar in ax.collections}
        for method, position in positions.items():
            found = scores(stored, method, rate)
            if method == "fussy" and rate == 0.2:
                assert position not in means
                continue
            assert means[position] == pytest.approx(found.mean())
            low, high = stats.t.interval(0.95, 3, found.mean(), stats.sem(found))
            assert bars[position] == pytest.approx([max(low, 0), high])


def test_settings_put_a_method_without_a_score_last_and_say_so(write_run: Callable[..., StoredRun]) -> None:
    """A rank that is no number must not upset the order of the others."""
    scores = {"d": 4.0, "lost": None, "a": 1.0, "c": 3.0, "none": None, "b": 2.0}
    rows = [
        {"method": method, "status": "failed"} if score is None else {"method": method, "metrics": {"rmse": score}}
        for method, score in scores.items()
    ]
    (figure,) = draw(write_run(*rows, order=list(scores)), "settings").values()
    names = [label.get_text() for label in figure.axes[0].get_yticklabels()]
    assert names == ["a", "b", "c", "d", "lost (no score)", "none (no score)"]


def test_deviation_sets_stated_beside_actual_errors() -> None:
    from fieldbench.report.figures.deviation import Stated, reliability

    deviation = np.repeat([1.0, 3.0], 50)
    error = 2 * deviation
    error[7] = 100.0
    unobserved = np.arange(100) != 7  # what was observed does not count
    stated, actual = reliability(Stated(error, deviation, unobserved))
    assert len(stated) == 10
    np.testing.assert_allclose(actual, 2 * stated)


def test_deviation_shows_methods_that_state_one(tmp_path: Path) -> None:
    import fieldbench

    run = fieldbench.run(
        ["nearest", "kriging"],
        "ssf-synthetic[shape=8x8x4]",
        rates=[0.3],
        trials=1,
        out=tmp_path / "run",
        save_fields=True,
    )
    (figure,) = run.plot("deviation", at=[1]).values()
    maps = [ax for ax in figure.axes if ax.images]
    assert [ax.get_xlabel() for ax in maps] == ["error", "deviation"]
    assert maps[0].get_title("left") == "kriging"
    stored = StoredRun(run.path)
    fields = stored.reconstruction(next(row for row in stored.rows() if row["method"] == "kriging"))
    error = np.abs(fields.estimate - fields.truth.values)
    np.testing.assert_allclose(maps[0].images[0].get_array(), error[:, :, 1].T, atol=1e-6)
    np.testing.assert_allclose(maps[1].images[0].get_array(), fields.deviation[:, :, 1].T, atol=1e-6)
    with pytest.raises(RequestError, match="no method of this run states a deviation; add"):
        run.plot("deviation", only={"method": ["nearest"]})


def test_methods_are_called_by_their_specs_or_labels(write_run: Callable[..., StoredRun]) -> None:
    rows = [{"method": "tap[epochs=200]", "rate": rate, "metrics": {"rmse": rate}} for rate in (0.1, 0.2)]
    plain = write_run(*rows)
    labelled = plain.chosen({}, {"tap": "Ours", "rmse": "error", "sea": "The sea"})
    for run, name, title, measure in (
        (plain, "tap[epochs=200]", "sea", "RMSE"),
        (labelled, "Ours[epochs=200]", "The sea", "error"),
    ):
        (figure,) = draw(run, "rate").values()
        (ax,) = figure.axes
        assert [line.get_label() for line in ax.lines] == [name]
        assert ax.get_ylabel() == measure
        assert figure.get_suptitle().startswith(f"{title}\n")


def test_slices_share_scales_and_show_where_nothing_is_observed(stored: StoredRun) -> None:
    figure = draw(stored, "slices", View(at=(2,)))["slices-sea-rate-40-trial-0"]
    images = {ax.get_title().split("\n")[0]: ax.images[0] for ax in figure.axes if ax.images and ax.get_title()}
    assert set(images) == {"truth", "observation", "learner", "flat", "half", "fussy"}
    assert len({(image.norm.vmin, image.norm.vmax) for image in images.values()}) == 1
    errors = [ax.images[0] for ax in figure.axes if ax.images and not ax.get_title()]
    assert len(errors) == 4
    ((low, high),) = {(image.norm.vmin, image.norm.vmax) for image in errors}
    assert low == -high
    row = next(row for row in stored.rows() if row["method"] == "learner" and row["rate"] == 0.4 and row["trial"] == 0)
    fields = stored.reconstruction(row)
    np.testing.assert_allclose(images["truth"].get_array(), fields.truth.values[:, :, 2].T)
    unobserved = np.ma.getmaskarray(np.ma.masked_invalid(images["observation"].get_array()))
    np.testing.assert_array_equal(~unobserved, fields.observation.mask[:, :, 2].T)
    assert any(ax.get_ylabel().startswith("depth 20 m") for ax in figure.axes)
    assert any(ax.get_xlabel() == "sound speed anomaly (m/s)" for ax in figure.axes)


def test_slices_show_deviations_below_errors_on_their_scale(tmp_path: Path) -> None:
    import fieldbench

    methods, dataset = ["nearest", "kriging"], "ssf-synthetic[shape=8x8x4]"
    run = fieldbench.run(methods, dataset, rates=[0.3], trials=1, out=tmp_path / "run", save_fields=True)
    (figure,) = run.plot("slices", at=[1]).values()
    rows = {ax.get_ylabel(): ax for ax in figure.axes if ax.images}
    assert {"error", "deviation"} <= set(rows)
    pictures = [ax.images[0] for ax in figure.axes if ax.images and not ax.get_title()]
    assert len(pictures) == 3  # two errors, one deviation
    assert len({(image.norm.vmin, image.norm.vmax) for image in pictures}) == 1
    stored = StoredRun(run.path)
    row = next(row for row in stored.rows() if row["method"] == "kriging")
    kept = stored.reconstruction(row).deviation
    assert kept is not None
    np.testing.assert_allclose(rows["deviation"].images[0].get_array(), kept[:, :, 1].T)
    (entry,) = make_album(stored).entries
    assert {method["name"]: method["deviation"] is not None for method in entry["methods"]} == {
        "nearest": False,
        "kriging": True,
    }


def test_a_deviation_of_power_is_shown_in_decibels() -> None:
    from fieldbench import Estimate, Field
    from fieldbench.report.figures.pictures import scale_of

    scale = scale_of(Field(np.array([1e-6, 1e-3]), log_floor=1e-9))
    factor_of_two = Estimate(np.ones(2), np.full(2, np.log(2)), distribution="lognormal", floor=1e-9)
    found = scale.deviation(factor_of_two)
    assert found is not None
    np.testing.assert_allclose(found, 10 * np.log10(2))
    assert scale.deviation(Estimate(np.ones(2))) is None


def test_one_picture_is_of_one_draw_and_says_of_which_seed(two_seeds: StoredRun) -> None:
    for only, trial, expected, methods in (
        ({}, None, "seed-0-trial-0", ["a", "b"]),
        ({}, 1, "seed-0-trial-1", ["a"]),  # b failed there, and is not shown as of another seed
        ({"seed": ["2"]}, 1, "trial-1", ["a", "b"]),
    ):
        chosen = StoredRun(two_seeds.path, only=only)
        ((name, figure),) = draw(chosen, "slices", View(trial=trial, at=(0,))).items()
        assert name == f"slices-sea-rate-20-{expected}"
        heads = [ax.get_title().split("\n")[0] for ax in figure.axes if ax.images and ax.get_title()]
        assert heads == ["truth", "observation", *methods]
        errors = [ax.images[0].get_array() for ax in figure.axes if ax.images and not ax.get_title()]
        np.testing.assert_allclose(errors, 0.25, atol=1e-5)


def test_errors_that_are_not_finite_do_not_stretch_the_scale() -> None:
    from fieldbench.report.figures.slices import error_range

    errors = [np.linspace(-2, 2, 401), np.array([np.inf, -np.inf])]
    assert error_range(errors) == pytest.approx(np.quantile(np.abs(errors[0]), 0.995))
    assert error_range([np.array([np.inf])]) == 1


def test_slices_along_another_axis_and_wrong_views(stored: StoredRun) -> None:
    figure = next(iter(draw(stored, "slices", View(axis="x", at=(0,))).values()))
    truth = figure.axes[0]
    assert truth.get_ylabel() == "x 0 km\ndepth (m)"
    assert truth.yaxis_inverted()  # depth goes down
    with pytest.raises(RequestError, match="no axis 'dept'; did you mean 'depth'"):
        draw(stored, "slices", View(axis="dept"))
    with pytest.raises(RequestError, match="no slice 5; the axis has 5, from 0 to 4"):
        draw(stored, "slices", View(at=(5,)))


def test_power_is_shown_in_decibels_and_the_sea_in_its_own_colours() -> None:
    from fieldbench.report.figures.pictures import scale_of

    axes = (Axis.regular("x", 2), Axis.regular("y", 1))
    power = scale_of(Field(np.array([[1e-3], [1e-1]]), axes, quantity="power", log_floor=1e-9))
    assert (power.low, power.high) == pytest.approx((-30, -10), abs=1e-3)
    np.testing.assert_allclose(power.shown(np.array([-1.0])), [-90])
    assert power.label == "power (dB)"
    pytest.importorskip("cmocean", reason="the sea's colours come with the extra plots")
    speed = scale_of(Field(np.array([[1500.0], [1540.0]]), axes, unit="m/s", quantity="sound speed"))
    assert (speed.colours.name, speed.label) == ("thermal", "sound speed (m/s)")
    anomaly = scale_of(Field(np.array([[-2.0], [1.0]]), axes, unit="m/s", quantity="sound speed anomaly"))
    assert (anomaly.colours.name, anomaly.low, anomaly.high) == ("balance", -2, 2)


def test_ranks_stand_at_the_means_of_scipy_s_ranks(stored: StoredRun) -> None:
    with pytest.raises(RequestError, match="three methods and two settings"):
        draw(stored, "ranks")  # fussy has scores at one rate only
    chosen = StoredRun(stored.path, only={"method": ["learner", "flat", "half"]})
    (figure,) = draw(chosen, "ranks").values()
    names = ["learner", "flat", "half"]
    means = [[scores(stored, name, rate).mean() for name in names] for rate in (0.2, 0.4)]
    ranks = stats.rankdata(means, axis=1).mean(axis=0)
    texts = [text.get_text() for text in figure.axes[0].texts]
    for name, rank in zip(names, ranks, strict=True):
        assert f"{name} {rank:.2f}" in texts or f"{rank:.2f} {name}" in texts
    assert [text for text in texts if text.isdigit()] == ["1", "2", "3"]


def test_the_critical_difference_is_demsar_s() -> None:
    """Demsar 2006, table 5(a): studentised range over the root of two, by number of methods."""
    from fieldbench.report.figures.ranks import alike, critical_difference

    table = {2: 1.960, 3: 2.343, 4: 2.569, 5: 2.728, 6: 2.850, 7: 2.949, 8: 3.031, 9: 3.102, 10: 3.164}
    for methods, quantile in table.items():
        expected = quantile * math.sqrt(methods * (methods + 1) / (6 * 14))
        assert critical_difference(methods, 14) == pytest.approx(expected, rel=5e-4)
    assert alike([1.0, 1.0, 3.0], 0.5) == [(0, 1)]
    assert alike([1.0, 2.0, 3.0], 0.5) == []


def test_figures_are_written_in_three_formats_and_show_the_same_twice(stored: StoredRun, tmp_path: Path) -> None:
    (figure,) = draw(stored, "rate").values()
    (again,) = draw(stored, "rate").values()
    for ending, start in (("png", b"\x89PNG"), ("pdf", b"%PDF"), ("svg", b"<?xml")):
        written = save(figure, tmp_path / f"a.{ending}").read_bytes()
        assert written.startswith(start)
        assert re.search(rb"CreationDate|<dc:date>|tIME", written) is None
    # What is drawn is compared, not the bytes: the layout's solver may put it a fraction of a pixel elsewhere.
    drawn, redrawn = (
        [line.get_xydata().tolist() for ax in picture.axes for line in ax.lines] for picture in (figure, again)
    )
    assert drawn
    assert drawn == redrawn
    with pytest.raises(RequestError, match=r"cannot write \.jpg; use png, pdf, svg"):
        save(figure, tmp_path / "a.jpg")


def test_a_dollar_sign_is_no_formula(write_run: Callable[..., StoredRun], tmp_path: Path) -> None:
    stored = write_run({"metrics": {"rmse": 1.0}}, units={"sea": r"$\no$"})
    (figure,) = draw(stored, "strips").values()
    assert figure.axes[0].get_xlabel() == r"RMSE ($\no$)"
    assert save(figure, tmp_path / "a.svg").is_file()


@pytest.mark.parametrize("kind", ["epoch", "cost", "strips", "slices"])
def test_most_is_how_many_settings_are_drawn(stored: StoredRun, kind: str) -> None:
    (name,) = draw(stored, kind, View(most=1))
    assert "rate-20" in name


def test_only_chooses_and_refuses(run_folder: Path) -> None:
    chosen = StoredRun(run_folder, only={"rate": ["0.40"], "method": ["learner"]})
    assert set(chosen.frame["rate"]) == {0.4}
    assert chosen.methods == ["learner"]
    with pytest.raises(RequestError, match="no setting has scores and several rates"):
        draw(chosen, "rate")
    for wanted in (["tap"], ["learner", "tap"]):
        with pytest.raises(RequestError, match="no record of method tap; there are: flat, fussy, half, learner"):
            _ = StoredRun(run_folder, only={"method": wanted}).frame


def test_without_matplotlib_the_extra_is_named(stored: StoredRun, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(RequestError, match=r"extra fieldbench-completion\[plots\]: pip install '\.\[plots\]'"):
        draw(stored, "rate")


def test_every_kind_is_a_module() -> None:
    import fieldbench.report.figures as package

    modules = {path.stem for path in Path(str(package.__file__)).parent.glob("*.py")} - {
        "__init__",
        "colours",
        "layout",
        "pictures",
        "style",
    }
    assert modules == set(KINDS)


def test_attention_is_drawn_where_a_method_has_it(stored: StoredRun) -> None:
    figures = draw(StoredRun(stored.path, stored.sources, {"rate": ["0.4"]}), "attention")
    (figure,) = figures.values()
    np.testing.assert_allclose(figure.axes[0].images[0].get_array(), np.eye(8) / 2 + 1 / 16)
    assert figure.axes[0].get_title("left") == "fussy"
    with pytest.raises(RequestError, match="no method of this run has an attention map"):
        draw(StoredRun(stored.path, stored.sources, {"method": ["flat"]}), "attention")


def test_sources_of_a_stored_run_are_the_environment_s_by_default(run_folder: Path) -> None:
    assert StoredRun(run_folder).sources == Sources.from_environment()


def test_calibration_shows_mean_coverage_and_its_spread_over_trials(write_run: Callable[..., StoredRun]) -> None:
    observed = {"coverage50": (0.4, 0.5, 0.6), "coverage90": (0.8, 0.9, 0.88), "coverage95": (0.9, 0.97, 0.95)}
    rows = [
        {
            "method": "sure",
            "trial": trial,
            "metrics": {"rmse": 1.0, **{name: observed[name][trial] for name in observed}},
        }
        for trial in range(3)
    ]
    stored = write_run(*rows, {"method": "mute", "trial": 0, "metrics": {"rmse": 1.0}})
    (figure,) = draw(stored, "calibration").values()
    (ax,) = figure.axes  # nothing was kept of where the truth lies
    lines = {line.get_label(): line for line in ax.lines}
    assert set(lines) == {"sure", "as promised"}
    np.testing.assert_allclose(lines["sure"].get_xdata(), [0.5, 0.9, 0.95])
    np.testing.assert_allclose(lines["sure"].get_ydata(), [np.mean(listed) for listed in observed.values()])
    band = ax.collections[0].get_paths()[0].vertices
    ends = band[np.isclose(band[:, 0], 0.9), 1]
    assert (ends.min(), ends.max()) == pytest.approx(interval(observed["coverage90"]))


def test_rates_at_which_all_trials_failed_are_left_out(tmp_path: Path) -> None:
    failed = [
        {"method": "a", "dataset": "fails", "rate": rate, "status": "failed", "metrics": {}} for rate in (0.1, 0.2)
    ]
    with pytest.raises(RequestError, match="no setting has scores and several rates"):
        draw(written_run(tmp_path / "a", *failed), "rate")
    well = [{"method": "a", "rate": rate, "metrics": {"rmse": 1.0}} for rate in (0.1, 0.2)]
    assert len(draw(written_run(tmp_path / "b", *failed, *well), "rate")) == 1


def test_calibration_shows_the_levels_that_there_are(write_run: Callable[..., StoredRun]) -> None:
    """As records of another program may have them."""
    rows = [{"method": "sure", "trial": trial, "metrics": {"rmse": 1.0, "coverage50": 0.4}} for trial in range(2)]
    (figure,) = draw(write_run(*rows), "calibration").values()
    lines = {line.get_label(): line for line in figure.axes[0].lines}
    np.testing.assert_allclose(lines["sure"].get_xdata(), [0.5])


def test_calibration_asks_for_a_method_that_says_how_sure_it_is(write_run: Callable[..., StoredRun]) -> None:
    stored = write_run({"method": "mute", "trial": 0, "metrics": {"rmse": 1.0}})
    with pytest.raises(RequestError, match="no method of this run says how sure it is; add"):
        draw(stored, "calibration")


def test_calibration_shows_where_the_truth_lies_in_what_was_predicted(write_run: Callable[..., StoredRun]) -> None:
    histograms = ([0.1] * 10, [0.2, *[0.075] * 8, 0.2], [0.3, *[0.05] * 8, 0.3])
    rows = [
        {
            "method": "sure",
            "trial": trial,
            "metrics": {"rmse": 1.0, "coverage90": 0.9},
            "diagnostics": {"pit": histogram},
        }
        for trial, histogram in enumerate(histograms)
    ]
    odd = {"method": "sure", "trial": 3, "metrics": {"rmse": 1.0, "coverage90": 0.9}, "diagnostics": {"pit": ["a"]}}
    (figure,) = draw(write_run(*rows, odd), "calibration").values()
    _, ax = figure.axes
    (steps,) = ax.patches
    np.testing.assert_allclose(steps.get_data().values, 10 * np.mean(histograms, axis=0))  # a density
    np.testing.assert_allclose(steps.get_data().edges, np.linspace(0, 1, 11))
    band = ax.collections[0].get_paths()[0].vertices
    ends = band[np.isclose(band[:, 0], 0.05, atol=0.06) & (band[:, 0] > 0), 1]
    low, high = interval([1.0, 2.0, 3.0])
    assert np.isclose(ends, high).any()
    assert np.isclose(band[:, 1], max(low, 0)).any()
