"""``fieldbench complete`` as a user types it."""

from __future__ import annotations

import json
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tests.command import command

PLUGIN = ["--plugin", str(Path(__file__).with_name("candidates.py"))]
TRUTH = 3.0 + 0.5 * np.indices((12, 10))[0] - 0.25 * np.indices((12, 10))[1]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "survey.npz"
    observed = np.random.default_rng(0).random(TRUTH.shape) < 0.4
    sea = np.ones(TRUTH.shape)
    sea[:2] = 0
    np.savez(path, temp=np.where(observed & (sea == 1), TRUTH, np.nan), sea=sea, lat=np.arange(12.0))
    return path


def test_auto_fills_the_gaps_and_says_why(file: Path) -> None:
    words = ["complete", file, "--variable", "temp", "--valid", "sea", "--among", "zero,plane,picky", *PLUGIN]
    shown = command(*words).shown
    assert "20 not valid" in shown
    assert shown.index("plane") < shown.index("zero")
    assert "picky works on 7-D" in shown
    target = file.with_name("survey_completed.npz")
    with np.load(target) as made, np.load(file) as source:
        sea = source["sea"] == 1
        np.testing.assert_allclose(made["temp"][sea], TRUTH[sea])
        assert np.isnan(made["temp"][~sea]).all()
        seen = ~np.isnan(source["temp"])
        np.testing.assert_array_equal(made["temp"][seen], source["temp"][seen])  # as measured, to the last bit
        assert not made["temp_std"][sea & seen].any()
        assert made["temp_std"][sea & ~seen].max() < 1e-6  # it says 0.25, but its errors say otherwise
        np.testing.assert_array_equal(made["lat"], source["lat"])
        note = json.loads(str(made["fieldbench"]))
    assert note["method"] == "plane"
    assert note["estimated_rmse"] < 1e-9
    assert note["chosen_among"].startswith("plane ")
    assert note["budget_seconds"] == 110


def test_errors_beyond_all_numbers_are_shown(tmp_path: Path) -> None:
    """The square of 1e300 is infinite; that is no reason not to fill the gaps."""
    huge = np.where(np.indices((6, 5)).sum(axis=0) % 2, 1e300 * TRUTH[:6, :5], np.nan)
    np.save(tmp_path / "huge.npy", huge)
    assert "rmse inf" in command("complete", tmp_path / "huge.npy", "--among", "zero,picky", *PLUGIN).shown
    assert np.isfinite(np.load(tmp_path / "huge_completed.npy")).all()


def test_it_never_overwrites_unasked(file: Path) -> None:
    arguments = ["complete", file, "--variable", "temp", "--method", "zero", "--budget", "0", *PLUGIN]
    assert command(*arguments).code == 0
    target = file.with_name("survey_completed.npz")
    before = target.read_bytes()
    assert "use --force" in command(*arguments).refusal
    assert target.read_bytes() == before
    assert command(*arguments, "--force").code == 0


def test_denoise_replaces_what_was_observed(file: Path) -> None:
    out = file.with_name("out.npz")
    arguments = ["--variable", "temp", "--method", "zero", "--budget", "0", "--out", out, "--denoise", *PLUGIN]
    assert command("complete", file, *arguments).code == 0
    assert (np.load(out)["temp"] == 0).all()


def test_facts_reach_the_method(file: Path) -> None:
    arguments = ["--variable", "temp", "--method", "told", "--known", "emitters=7", "--budget", "0", *PLUGIN]
    assert command("complete", file, *arguments, "--denoise").code == 0
    assert (np.load(file.with_name("survey_completed.npz"))["temp"] == 7).all()


def test_codes_limits_and_areas_as_options(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    gappy = np.where(rng.random(TRUTH.shape) < 0.3, -999.0, TRUTH)
    gappy[9:] = -99.5
    np.savez(tmp_path / "a.npz", t=gappy, lat=np.linspace(-80, 80, 12), x=np.arange(10.0))
    words = ["complete", tmp_path / "a.npz", "--variable", "t", "--coordinates", "lat,x", "--budget", "60", *PLUGIN]
    limits = ["--max-gap", "1.5", "--within", "0", "6", "--by-area", "--missing", "-999", "--missing", "-99.5"]
    shown = command(*words, *limits, "--among", "plane,zero").shown
    assert "withheld entries a fold, weighted by area" in shown
    assert "Error of plane by distance" in shown
    assert "farther from an observation than max-gap says, and stay missing" in shown
    assert "mean of t, weighted by area: " in shown
    with np.load(tmp_path / "a_completed.npz") as made:
        assert (made["t"][10:] == -99.5).all()  # as it was
        assert not made["t_filled"][10:].any()
        assert ((made["t"][:9] >= 0) & (made["t"][:9] <= 6)).sum() > 80
        note = json.loads(str(made["fieldbench"]))
    assert note["estimated_by"].endswith("weighted by area")


def test_decibels_are_refused_a_log_floor(tmp_path: Path) -> None:
    np.save(tmp_path / "dbm.npy", np.where(np.eye(12, 10) == 1, np.nan, -90 + TRUTH))
    words = ["complete", tmp_path / "dbm.npy", "--method", "zero", "--budget", "0", *PLUGIN]
    error = command(*words, "--log-floor", "1e-6").refusal
    assert "110 of 110 values are at or below -1e-06" in error
    assert "leave out the log floor for values that are logarithms already, such as dBm" in error
    assert command(*words).code == 0


def test_a_code_that_hides_every_gap_is_a_question(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", np.where(np.random.default_rng(0).random(TRUTH.shape) < 0.3, -999.0, TRUTH))
    done = command("complete", tmp_path / "a.npy", "--method", "plane", *PLUGIN)
    assert done.code == 2
    assert re.search("a has no gap to fill; .* are exactly -999, .* say --missing -999$", done.err, re.M)


def test_several_variables_at_once(tmp_path: Path) -> None:
    unobserved = np.random.default_rng(0).random((2, *TRUTH.shape)) < 0.3
    temp, salt = np.where(unobserved, np.nan, np.stack([TRUTH, 2 * TRUTH]))
    np.savez(tmp_path / "a.npz", temp=temp, salt=salt)
    words = ["complete", tmp_path / "a.npz", "--variable", "temp,salt", "--budget", "60"]
    shown = command(*words, "--among", "plane,zero", *PLUGIN).shown
    assert shown.index("temp: x 12") < shown.index("salt: x 12")
    with np.load(tmp_path / "a_completed.npz") as made:
        np.testing.assert_allclose(made["temp"], TRUTH)
        np.testing.assert_allclose(made["salt"], 2 * TRUTH)
        np.testing.assert_array_equal(made["salt_filled"], unobserved[1])
        assert set(json.loads(str(made["fieldbench"]))) == {"temp", "salt"}


def test_stations_are_completed_at_points(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    rows = "\n".join(f"{x:.6f};{y:.6f};{1 + x:.6f}".replace(".", ",") for x, y in rng.random((150, 2)))
    (tmp_path / "stations.csv").write_text(f"x;y;temp\n{rows}\n")
    (tmp_path / "selector.csv").write_text("site,x,y\nA,0.25,0.5\nB,0.75,0.5\n")
    words = ["complete", tmp_path / "stations.csv", "--coordinates", "x,y", "--method", "thin-plate"]
    assert "150 rows lie on no grid" in command(*words).refusal
    shown = command(*words, "--at", tmp_path / "selector.csv", "--budget", "60").shown
    assert "150 entries observed, 2 missing" in shown
    assert "by distance" not in shown  # a step from one station to the next is not a distance
    made = np.genfromtxt(tmp_path / "stations_completed.csv", delimiter=",", names=True, dtype=None, encoding="utf-8")
    assert made["site"].tolist() == ["A", "B"]
    np.testing.assert_allclose(made["temp"], [1.25, 1.75], atol=0.02)
    assert "temp: x 21 x y 21" in command(*words, "--grid", "0.05", "--budget", "0", "--force").shown


def test_scattered_points_are_gridded_and_completed(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    rows = "\n".join(f"{x},{y},{1 + x}" for x, y in rng.random((300, 2)))
    (tmp_path / "casts.csv").write_text(f"x,y,temp\n{rows}\n")
    words = ["complete", tmp_path / "casts.csv", "--coordinates", "x,y", "--grid", "30x20"]
    assert "temp: x 30 x y 20" in command(*words, "--method", "plane", *PLUGIN).shown
    made = np.genfromtxt(tmp_path / "casts_completed.csv", delimiter=",", names=True)
    assert len(made) == 600
    np.testing.assert_allclose(made["temp"], 1 + made["x"], atol=0.05)  # gridding moves points by half a step
    note = json.loads((tmp_path / "casts_completed.csv.json").read_text())
    assert note["method"] == "plane"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--variable", "tempo"], "did you mean 'temp'"),
        (["--variable", "temp", "--method", "plain"], "did you mean 'plane'"),
        (["--variable", "temp", "--known", "emitters"], "write NAME=NUMBER"),
        (["--variable", "temp", "--at", "nowhere.csv"], "--at 'nowhere.csv' is not a file"),
        (["--variable", "temp", "--max-gap", "far"], "write a number of grid steps"),
        (["--variable", "temp", "--within", "3", "1"], "give the lowest value first"),
        (["--variable", "temp", "--by-area", "--method", "zero"], "by-area needs an axis of latitudes"),
        (["--variable", "temp", "--cyclic", "hour"], "there is no axis 'hour'"),
        (["--variable", "temp,lat"], "lat has no gap to fill"),
        (["--variable", "temp", "--grid", "ten"], "is neither a shape nor a step; write 20x20x10, or step=0.5x0.5x10"),
        (["--variable", "temp", "--out", "nowhere/out.npz"], "is not a folder"),
    ],
)
def test_a_wrong_request_is_one_clear_line_and_exit_code_2(file: Path, arguments: list[str], message: str) -> None:
    error = command("complete", file, *arguments, *PLUGIN).refusal.strip()
    assert message in error
    assert len(error.splitlines()) == 1
    assert [path.name for path in file.parent.iterdir()] == ["survey.npz"]


def test_an_error_is_told_with_its_interval(file: Path) -> None:
    shown = command("complete", file, "--variable", "temp", "--valid", "sea", "--among", "zero", *PLUGIN).shown
    low, high = map(float, re.search(r"With a probability of 90 %, it is (\S+) to (\S+)$", shown, re.M).groups())
    gaps = TRUTH[2:][np.isnan(np.load(file)["temp"][2:])]
    assert low < np.sqrt(np.mean(gaps**2)) < high
    note = json.loads(str(np.load(file.with_name("survey_completed.npz"))["fieldbench"]))
    assert note["estimated_rmse_low"] == pytest.approx(low, rel=0.01)
    assert note["estimated_rmse_high"] == pytest.approx(high, rel=0.01)
    assert note["estimated_rmse_low"] < note["estimated_rmse"] < note["estimated_rmse_high"]


def test_an_error_that_cannot_be_checked_has_no_number(tmp_path: Path) -> None:
    corner = np.full((40, 40), np.nan)
    corner[:8, :8] = 3.0 + np.hypot(*np.indices((8, 8)))
    np.save(tmp_path / "corner.npy", corner)
    shown = command("complete", tmp_path / "corner.npy", "--among", "zero,plane", *PLUGIN).shown
    assert "The error at the gaps is beyond what can be checked" in shown
    assert "probability" not in shown
    assert re.search(r"^Completed 1536 entries with plane$", shown, re.M)
    assert re.search(r"^plane +- +- +1\.00 ", shown, re.M)  # compared, without an error to expect
    note = json.loads((tmp_path / "corner_completed.npy.json").read_text())
    assert note["estimated_rmse"] == "beyond what can be checked"


def test_ctrl_c_says_what_it_leaves(file: Path) -> None:
    before = file.read_bytes()
    arguments = ["complete", str(file), "--variable", "temp", "--among", "zero,sleeper", *PLUGIN]
    # A process that is started in the background ignores Ctrl-C, and so would its children.
    script = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler); "
    script += "from fieldbench.cli.main import main; main()"
    process = subprocess.Popen([sys.executable, "-c", script, *arguments], stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    assert "withholding entries" in process.stderr.readline()  # before anything is fitted
    for line in process.stderr:
        if line.startswith("zero: fold 1"):
            break
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=60)
    assert process.returncode == 130
    assert said.endswith(f"Stopped; nothing was written, and {file} is as it was\n")
    assert file.read_bytes() == before
    assert [path.name for path in file.parent.iterdir()] == [file.name]


@pytest.mark.parametrize(("kind", "shape", "most"), [("npy", (12, 14), 1024), ("tif", (200, 200), 150 * 1024)])
def test_on_a_full_disk_a_file_that_was_there_stays(
    kind: str, shape: tuple[int, int], most: int, tmp_path: Path
) -> None:
    """The end is missing, which neither library says. A limit on files takes the place of the disk's end."""
    values = np.indices(shape).sum(axis=0).astype("f4" if kind == "tif" else "f8")
    values[0, :5] = np.nan
    source, target = tmp_path / f"a.{kind}", tmp_path / f"b.{kind}"
    if kind == "tif":
        about = {"driver": "GTiff", "height": shape[0], "width": shape[1], "dtype": "float32", "nodata": np.nan}
        with pytest.importorskip("rasterio").open(source, "w", count=1, **about) as made:
            made.write(values, 1)
    else:
        np.save(source, values)
    shutil.copy(source, target)
    program = (
        "import resource, signal; signal.signal(signal.SIGXFSZ, signal.SIG_IGN);"
        f"resource.setrlimit(resource.RLIMIT_FSIZE, ({most}, {most}));"
        "from fieldbench.cli.main import main; main()"
    )
    arguments = ["complete", str(source), "--method", "nearest", "--budget", "0", "--out", str(target), "--force"]
    done = subprocess.run([sys.executable, "-c", program, *arguments], capture_output=True, text=True)
    assert done.returncode == 1
    assert f"{target.name}: it could not be written whole" in done.stderr
    assert "Traceback" not in done.stderr
    assert target.read_bytes() == source.read_bytes()
    assert sorted(path.name for path in tmp_path.iterdir()) == [source.name, target.name]
