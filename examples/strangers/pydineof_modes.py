import numpy as np

import fieldbench


class PyDINEOF(fieldbench.Method):
    """Empirical orthogonal functions along the first axis (pyDINEOF, which takes positive maps in single precision)."""

    name = "pydineof"
    orders = (3,)
    requires = {"pydineof": "pyDINEOF"}
    scale_equivariant = False  # it computes in single precision
    expected_failures = dict.fromkeys(("deterministic", "global-random-state", "reports"), "ARPACK starts by chance")

    def applicable(self, observation: fieldbench.Observation) -> str | None:
        enough = len(observation.mask) > 7 and 0.05 < observation.rate < 1 and np.ptp(observation.observed) > 0
        return super().applicable(observation) if enough else "it needs eight times, gaps, and a tenth observed"

    def complete(
        self, observation: fieldbench.Observation, *, seed: int, device: str, report: fieldbench.Report
    ) -> fieldbench.FloatArray:
        import pydineof
        import xarray

        mean, spread, size = observation.observed.mean(), observation.observed.std(), min(10, len(observation.mask) - 1)
        maps = xarray.DataArray(np.exp((observation.values - mean) / spread), dims=("time", "y", "x"))
        maps = maps.assign_coords(time=np.arange(len(maps)))
        made = pydineof.run_2D(maps, nev=min(5, size - 6), ncv=size, seed=seed).transpose("time", "y", "x")
        return mean + spread * np.log(np.where(np.isfinite(made), made, 1.0))


fieldbench_register_methods = fieldbench.hookimpl(lambda: [PyDINEOF])
