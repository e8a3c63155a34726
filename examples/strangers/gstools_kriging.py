import numpy as np

import fieldbench


class GSTools(fieldbench.Method):
    """Ordinary kriging with an exponential covariance (GSTools), and its standard deviation."""

    name = "gstools"
    orders = (2, 3)
    requires = {"gstools": "gstools"}
    length: float = fieldbench.parameter(5.0, "length scale", unit="grid steps", gt=0, search=fieldbench.Log(1, 40))

    def complete(
        self, observation: fieldbench.Observation, *, seed: int, device: str, report: fieldbench.Report
    ) -> fieldbench.Estimate:
        import gstools

        steps = [axis.coordinates / axis.spacing for axis in observation.axes]
        positions = [points[index] for points, index in zip(steps, observation.indices.T, strict=True)]
        level = float(np.var(observation.observed)) or 1.0
        model = gstools.Exponential(dim=observation.ndim, var=level, len_scale=self.length)
        noise = (observation.noise_deviation or 0.0) ** 2 + 1e-9 * level
        kriging = gstools.krige.Ordinary(model, positions, observation.observed, cond_err=noise, exact=False)
        mean, variance = kriging(steps, mesh_type="structured")
        return fieldbench.Estimate(mean, np.sqrt(np.maximum(variance, 0)))


@fieldbench.hookimpl
def fieldbench_register_methods() -> list[type[fieldbench.Method]]:
    return [GSTools]
