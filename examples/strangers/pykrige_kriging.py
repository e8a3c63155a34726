import numpy as np

import fieldbench


class PyKrige(fieldbench.Method):
    """Ordinary kriging of a volume with a fitted variogram (PyKrige), and its standard deviation."""

    name = "pykrige"
    orders = (3,)
    requires = {"pykrige": "pykrige"}
    model: str = fieldbench.parameter("exponential", "variogram", search=["exponential", "spherical", "gaussian"])

    def applicable(self, observation: fieldbench.Observation) -> str | None:
        enough = observation.mask.sum() >= 10 and np.ptp(observation.observed) > 0
        return super().applicable(observation) if enough else "a variogram needs ten observations that differ"

    def complete(
        self, observation: fieldbench.Observation, *, seed: int, device: str, report: fieldbench.Report
    ) -> fieldbench.Estimate:
        from pykrige.ok3d import OrdinaryKriging3D

        steps = [axis.coordinates / axis.spacing for axis in observation.axes]
        positions = [points[index] for points, index in zip(steps, observation.indices.T, strict=True)]
        spread = observation.observed.std()
        kriging = OrdinaryKriging3D(*positions, observation.observed / spread, variogram_model=self.model)
        mean, variance = (spread**power * part.T for power, part in enumerate(kriging.execute("grid", *steps), 1))
        return fieldbench.Estimate(mean, np.sqrt(np.maximum(variance, 0)))


@fieldbench.hookimpl
def fieldbench_register_methods() -> list[type[fieldbench.Method]]:
    return [PyKrige]
