"""A wrong request: exit code 2, and one line on standard error that names the thing and what would be right."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

SUITE = """
title = "Mine"
metric = "{metric}"
[[columns]]
label = "a"
dataset = "wave"
rate = 0.3
[[rows]]
label = "Mean"
method = "mean"
"""

WRONG = {
    "run --methods meen --datasets wave": ["unknown method 'meen'", "'mean'"],
    "run --methods mean --datasets wav": ["unknown dataset 'wav'", "'wave'"],
    "run --methods mean --datasets wave --noise gausian": ["unknown noise 'gausian'", "'gaussian'"],
    "run --methods mean --datasets wave --samplers fibres": ["unknown sampler 'fibres'", "'fibers'"],
    "run --methods mean --datasets wave --select orakel": ["unknown selection 'orakel'", "'oracle'"],
    "run --methods 'mean[shfit=1]' --datasets wave": ["mean[shfit=1]", "'shfit'", "'shift'"],
    "run --methods 'mean[shift=much]' --datasets wave": ["mean[shift=much]", "shift", "number"],
    "run --methods 'mean[nap=-1]' --datasets wave": ["mean[nap=-1]", "greater than or equal to 0"],
    "run --methods 'mean[shift=1' --datasets wave": ["mean[shift=1", "']' is missing"],
    "run --methods mean+walk --datasets wave": ["mean+walk", "--methods"],
    "run --methods '' --datasets wave": ["--methods is empty"],
    "run --methods mean --datasets ' '": ["--datasets is empty"],
    "run --methods mean --datasets wave --noise ''": ["--noise is empty"],
    "run --methods mean --datasets wave --rates ''": ["--rates is empty"],
    "run rmse.toml --methods ''": ["--methods is empty"],
    "reproduce rmse.toml --methods ''": ["--methods is empty"],
    "run --methods mean, --datasets wave": ["'mean,'"],
    "run --methods mean --datasets wave --rates 0": ["rate 0", "(0, 1]"],
    "run --methods mean --datasets wave --rates 0.1,1.5": ["rate 1.5", "(0, 1]"],
    "run --methods mean --datasets wave --rates nan": ["rate nan", "(0, 1]"],
    "run --methods mean --datasets wave --rates ten": ["rate 'ten'", "--rates 0.1,0.2"],
    "run --methods mean --datasets wave --rates 0.001": ["wave", "rate 0.001", "observes none"],
    "run --methods 'windowed[window=9]' --datasets wave": ["windowed[window=9]", "wave", "larger than the field"],
    "run --methods mean --datasets holey": ["holey", "NaN or infinite"],
    "run --methods mean --datasets wave --device cuda:63": ["cuda:63"],
    "run --methods mean --datasets wave --device abacus": ["abacus"],
    "run --methods mean --datasets wave --device cpu,cuda:0": ["'cpu' stands alone", "cuda:0,cuda:2"],
    "run --methods mean --datasets wave --backend dask --scheduler nowhere": ["'nowhere'", "tcp://HOST:PORT"],
    "run --methods mean --datasets wave --noise 'gaussian[sigma=1.79e308]'": [
        "gaussian[sigma=1.79e+308]",
        "NaN or infinite",
    ],
    "run --methods mean --datasets wave --noise 'gaussian[sigma=inf]'": ["gaussian[sigma=inf]", "a finite number"],
    "complete full": ["'full' is not a file"],
    "complete .": ["'.' is not a file"],
    "watch full --port 70000": ["--port", "65535"],
    "run --methods mean --datasets wave --trials 0": ["trials 0", "greater than or equal to 1"],
    "run --methods mean --datasets wave --trials many": ["--trials", "integer"],
    "run --methods mean --datasets wave --seed seven": ["seed 'seven' is not a whole number", "--seed secret"],
    "run --methods mean --datasets wave --seed=-1": ["seed -1", "greater than or equal to 0"],
    f"run --methods mean --datasets wave --seed {2**63}": [f"seed {2**63}", f"less than or equal to {2**63 - 1}"],
    f"run --methods mean --datasets wave --first-trial {2**63}": [f"first_trial {2**63}", f"equal to {2**62}"],
    "run rmse.toml --trials 0": ["trials 0", "greater than or equal to 1"],
    "run rsme.toml": ["unknown metric 'rsme'", "'rmse'"],
    "run slnre.toml": ["metric slnre does not apply to wave", "rmse"],
    "run latin.toml": ["latin.toml", "not a TOML file"],
    "run --methods mean --datasets wave --jobs 0": ["jobs", "0"],
    "run --methods mean --datasets wave --jobs 99999999999999999999": ["--jobs", "10000"],
    "run --methods mean --datasets wave --threads 99999": ["--threads", "10000"],
    "run --methods mean --datasets wave --slots-per-device 99999": ["--slots-per-device", "10000"],
    f"run --methods mean --datasets wave --memory-limit {'9' * 400}GiB": ["memory limit", "8GiB"],
    f"run --methods 'mean[shift={'9' * 5000}]' --datasets wave": ["999999999999...", "5000 digits"],
    f"run --methods mean --datasets wave --set mean.shift={'9' * 5000}x2": ["999999999999...", "5000 digits"],
    f"run --methods 'mean[shift={'9' * 5000}.5]' --datasets wave": ["shift = inf of mean", "finite number"],
    "run --methods mean --datasets wave --plugin ''": ["--plugin is empty"],
    "run --methods mean --datasets wave --no-plugin ' '": ["--no-plugin is empty"],
    "run --methods mean --datasets wave --plugin /dev/zero": ["/dev/zero", "not there"],
    "run --methods mean --datasets file:/dev/zero": ["/dev/zero", "device or pipe"],
    f"run --methods mean --datasets wave --plugin {'x' * 5000}": ["xxx", "too long"],
    "run --methods mean --datasets wave --threads 0": ["threads", "0"],
    "run --methods mean --datasets wave --slots-per-device 0": ["slots", "0"],
    "run --methods mean --datasets wave --timeout 0": ["timeout", "0"],
    "run --methods mean --datasets wave --memory-limit lots": ["'lots'", "8GiB"],
    "run --methods mean --datasets wave --backend locale": ["'locale'"],
    "run --methods mean --datasets wave --scheduler tcp://localhost:1": ["--scheduler", "--backend dask"],
    "run --methods mean --datasets wave --set shift=1": ["'shift=1'", "tap.epochs=500,1000"],
    "run --methods mean --datasets wave --set meen.shift=1": ["'meen'", "'mean'"],
    "run --methods mean --datasets wave --set mean.shfit=1": ["'shfit'", "'shift'"],
    "run --methods 'mean[shift=2]' --datasets wave --set mean.shift=1": ["mean[shift=2]", "give it once"],
    "run --methods mean --datasets wave --plugin nowhere.py": ["nowhere.py", "not there"],
    "run --methods mean --datasets wave --plugin '~nosuch/x.py'": ["~nosuch", "nobody's home folder"],
    "run --methods mean --datasets 'file:~nosuch/x.npy'": ["~nosuch", "nobody's home folder"],
    "run --methods mean --datasets wave --no-plugin tosy": ["tosy"],
    "run --methods mean --datasets wave --out a-file": ["a-file", "--out"],
    "run --methods mean --datasets wave --out full": ["full", "--out"],
    "run --methods mean --datasets wave --out a-file --dry-run": ["a-file", "--out"],
    "run --methods mean --datasets wave --out full --dry-run --fresh": ["full", "--out"],
    "reproduce rmse.toml --out a-file --dry-run": ["a-file", "--out"],
    "run --methods mean": ["--datasets"],
    "run --method mean --datasets wave": ["--method"],
    "runs --methods mean": ["'runs'", "'run'"],
    "table nowhere": ["nowhere", "not there"],
    "table full": ["full", "not a run"],
    "table a-file": ["a-file", "not a run"],
    "show meen": ["'meen'", "'mean'"],
    "show 'mean[shfit=1]'": ["'shfit'", "'shift'"],
    "list method": ["'method'", "'methods'"],
    "plugins tosy": ["'tosy'", "toys"],
    "status nowhere": ["nowhere", "not there"],
    "merge nowhere there --out both": ["nowhere is not a run"],
    "verify nowhere": ["nowhere is not a run"],
    "verify full --share 0": ["--share 0", "above 0"],
    "verify full --share 2": ["--share", "1"],
}


@pytest.mark.parametrize("line", WRONG)
def test_a_wrong_request_gets_one_line_and_code_2(fieldbench, tmp_path: Path, line: str) -> None:
    Path("a-file").write_text("not a run")
    for metric in ("rmse", "rsme", "slnre"):
        Path(f"{metric}.toml").write_text(SUITE.format(metric=metric))
    Path("latin.toml").write_bytes(b'title = "\xff"')
    Path("full").mkdir()
    Path("full/thesis.tex").write_text("not a run")
    outcome = fieldbench(*shlex.split(line))
    assert outcome.code == 2, outcome
    assert outcome.out == ""
    (complaint,) = outcome.err.splitlines()
    assert complaint.startswith("fieldbench: ")
    for words in WRONG[line]:
        assert words in complaint
    assert not Path("runs").exists()


def test_what_starts_over_needs_no_manifest_that_can_be_read(run) -> None:
    assert run("mean", "--trials", "1").code == 0
    Path("kept/manifest.json").write_text("{")
    assert run("mean", "--trials", "1", "--dry-run").code == 2
    assert run("mean", "--trials", "1", "--dry-run", "--fresh").code == 0
    assert run("mean", "--trials", "1", "--fresh").code == 0


def test_missing_data_is_said_in_one_line(fieldbench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FIELDBENCH_DATA", str(tmp_path / "empty"))
    outcome = fieldbench("run", "--methods", "mean", "--datasets", f"file:{tmp_path}/none.npy")
    assert outcome.code == 2
    (complaint,) = outcome.err.splitlines()
    assert "none.npy" in complaint
