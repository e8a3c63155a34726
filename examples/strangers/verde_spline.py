import numpy as np

import fieldbench


class Spline(fieldbench.Method):
    """Biharmonic spline of a map (verde); of a volume, slice by slice: verde-spline+slices."""

    name = "verde-spline"
    orders = (2,)
    requires = {"verde": "verde"}
    damping: float = fieldbench.parameter(1e-6, "weight of the smoothness", gt=0, search=fieldbench.Log(1e-8, 1e2))

    def complete(
        self, observation: fieldbench.Observation, *, seed: int, device: str, report: fieldbench.Report
    ) -> fieldbench.FloatArray:
        import verde

        grid = np.meshgrid(*(axis.coordinates / axis.spacing for axis in observation.axes), indexing="ij")
        seen, mean = [points[observation.mask] for points in grid], observation.observed.mean()
        spline = verde.Spline(damping=self.damping).fit(seen, observation.observed - mean)
        return mean + spline.predict(grid)


@fieldbench.hookimpl
def fieldbench_register_methods() -> list[type[fieldbench.Method]]:
    return [Spline]
