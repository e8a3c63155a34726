"""Kriging by fieldbench, scikit-learn, gstools and gpytorch on the same observations.

    pip install 'gstools[rust]' gpytorch
    python benchmarks/kriging_libraries.py

All krige with a Matern-3/2 covariance, one length scale an axis and a nugget, on one thread and in double precision.
Length scales are sought on at most 1500 observed positions, as `kriging` does, and the field is predicted from all of
them; gstools, whose variogram is cheap, uses all for both. What a library leaves open is set as its own documentation
has it; the numbers below are the only choices. Printed are the RMSE at hidden entries, the share of them that lie
within two predicted standard deviations, and the processor time.
"""

from __future__ import annotations

import argparse
import os
from importlib.metadata import version

# Before numpy is imported, which reads them once.
os.environ.update(
    dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "RAYON_NUM_THREADS"), "1")
)

import math
import platform
import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fieldbench import NullReport
from fieldbench.field import FloatArray, Observation
from fieldbench.judging import draw
from fieldbench.plan import Plan, Request
from fieldbench.registry import Registry

MOST = 1500
#: gpytorch's tutorial takes 50 steps of Adam at a rate of 0.1.
STEPS, RATE = (50, 200), 0.1
#: Directions of gstools's variograms take in pairs within this angle.
ANGLE = math.pi / 8

#: Mean and standard deviation at hidden entries.
Prediction = tuple[FloatArray, FloatArray]


def ours(observation: Observation, seed: int) -> Prediction:
    mean, deviation = Registry().method("kriging").predict(observation, seed=seed, device="cpu", report=NullReport())
    assert deviation is not None
    hidden = ~observation.mask
    return np.asarray(mean)[hidden], np.asarray(deviation)[hidden]


def scikit_learn(observation: Observation, seed: int) -> Prediction:
    from sklearn.gaussian_process import GaussianProcessRegressor
    from sklearn.gaussian_process.kernels import ConstantKernel, Matern, WhiteKernel

    points, values, targets, some = _scattered(observation, seed)
    start = 0.2 * np.ptp(points, axis=0)
    kernel = ConstantKernel(1.0, (1e-3, 1e5)) * Matern(start, (0.3, 1e4), nu=1.5) + WhiteKernel(1e-2, (1e-8, 10))
    fitted = GaussianProcessRegressor(kernel, normalize_y=True).fit(points[some], values[some]).kernel_
    process = GaussianProcessRegressor(fitted, optimizer=None, normalize_y=True).fit(points, values)
    mean, deviation = process.predict(targets, return_std=True)
    # What it predicts is a noisy measurement; the field itself is known better by the nugget.
    noise = fitted.k2.noise_level * values.var()
    return mean, np.sqrt(np.maximum(deviation**2 - noise, 0))


def gstools(observation: Observation, seed: int) -> Prediction:
    import gstools as gs

    points, values, targets, _ = _scattered(observation, seed)
    bins = np.arange(0.5, np.ptp(points, axis=0).max() / 2)
    centres, gammas = gs.vario_estimate(points.T, values, bins, direction=np.eye(3), angles_tol=ANGLE)
    model = gs.Matern(dim=3, nu=1.5)
    model.fit_variogram(centres, gammas, nu=False, nugget=True, anis=True)
    mean, variance = gs.krige.Ordinary(model, points.T, values)(targets.T)
    return mean, np.sqrt(np.maximum(variance, 0))


def gpytorch(steps: int) -> Callable[[Observation, int], Prediction]:
    def predicted(observation: Observation, seed: int) -> Prediction:
        import gpytorch as gp
        import torch

        class Process(gp.models.ExactGP):  # type: ignore[misc]
            def __init__(self, points: torch.Tensor, values: torch.Tensor, likelihood: Any) -> None:
                super().__init__(points, values, likelihood)
                self.mean_module = gp.means.ConstantMean()
                self.covar_module = gp.kernels.ScaleKernel(gp.kernels.MaternKernel(nu=1.5, ard_num_dims=3))

            def forward(self, points: torch.Tensor) -> Any:
                return gp.distributions.MultivariateNormal(self.mean_module(points), self.covar_module(points))

        torch.set_num_threads(1)
        points, values, targets, some = _scattered(observation, seed)
        extent, centre, scale = np.ptp(points, axis=0), values.mean(), values.std()
        x, y, wanted = (torch.from_numpy(one) for one in (points / extent, (values - centre) / scale, targets / extent))
        likelihood = gp.likelihoods.GaussianLikelihood().double()
        process = Process(x[some], y[some], likelihood).double()
        optimiser = torch.optim.Adam(process.parameters(), lr=RATE)
        marginal = gp.mlls.ExactMarginalLogLikelihood(likelihood, process)
        process.set_train_data(x[some], y[some], strict=False)
        process.train()
        with gp.settings.max_cholesky_size(10**6):
            for _ in range(steps):
                optimiser.zero_grad()
                loss = -marginal(process(x[some]), y[some])
                loss.backward()
                optimiser.step()
            process.set_train_data(x, y, strict=False)
            process.eval()
            with torch.no_grad():
                # It holds a covariance of all targets that it is given at once.
                latent = [process(part) for part in wanted.split(1000)]
                mean, variance = (torch.cat([getattr(one, name) for one in latent]) for name in ("mean", "variance"))
        return centre + scale * mean.numpy(), scale * variance.sqrt().numpy()

    return predicted


def _scattered(observation: Observation, seed: int) -> tuple[FloatArray, FloatArray, FloatArray, NDArray[np.intp]]:
    """Observed positions in grid steps, values there, hidden positions, and which of the first to fit on."""
    values = np.asarray(observation.observed, dtype=float)
    some = np.random.default_rng(seed).permutation(len(values))[:MOST]
    return observation.indices.astype(float), values, np.argwhere(~observation.mask).astype(float), some


def _thinned(observation: Observation) -> Observation:
    """The same with every fourth of the observed entries only, for a quick first call."""
    given_up = np.zeros(observation.shape, dtype=bool)
    given_up[tuple(np.concatenate([observation.indices[start::4] for start in (1, 2, 3)]).T)] = True
    return observation.without(given_up)


def main() -> None:
    """Print one line a library and rate, means over the trials."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dataset", default="ssf", help="a complete three-dimensional field")
    parser.add_argument("--rates", default="0.1,0.2")
    parser.add_argument("--trials", type=int, default=3)
    parser.add_argument("--seed", type=int, default=1000, help="base seed; tables report 0, so another one")
    parser.add_argument("--only", default="", help="libraries whose name begins so")
    wanted = parser.parse_args()
    libraries: dict[str, Callable[[Observation, int], Prediction]] = {
        "fieldbench": ours,
        "scikit-learn": scikit_learn,
        "gstools": gstools,
        **{f"gpytorch, {steps} steps": gpytorch(steps) for steps in STEPS},
    }
    packages = ("fieldbench", "scikit-learn", "gstools", "gstools-core", "gpytorch", "torch", "scipy", "numpy")
    print(", ".join([f"Python {platform.python_version()}", *(f"{name} {version(name)}" for name in packages)]))
    registry = Registry()
    for rate in (float(text) for text in wanted.rates.split(",")):
        request = Request(
            methods=["nearest"], datasets=[wanted.dataset], rates=[rate], trials=wanted.trials, seed=wanted.seed
        )
        trials = [(trial.number, draw(trial, registry)) for trial in Plan(request, registry)]
        for name, predict in libraries.items():
            if not name.startswith(wanted.only):
                continue
            predict(_thinned(trials[0][1].observation), 0)  # imports and compiles
            errors, within, seconds = [], [], []
            for number, item in trials:
                start = time.process_time()
                mean, deviation = predict(item.observation, number)
                seconds.append(time.process_time() - start)
                off = mean - item.field.values[~item.mask]
                errors.append(float(np.sqrt(np.mean(off**2))))
                within.append(float(np.mean(np.abs(off) <= 2 * deviation)))
            print(
                f"{rate:.0%}  {name:20} RMSE {np.mean(errors):.4f} ({', '.join(f'{one:.4f}' for one in errors)})  "
                f"within 2 deviations {np.mean(within):.1%}  {np.mean(seconds):.1f} s",
                flush=True,
            )


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    main()
