import fieldbench


class Soft(fieldbench.Method):
    """The field unfolded along its last axis, completed with a shrunken singular spectrum (hyperimpute)."""

    name = "hyperimpute"
    requires = {"hyperimpute": "hyperimpute"}
    shrink: float = fieldbench.parameter(
        0.2, "of the singular values, in deviations", gt=0, search=fieldbench.Log(0.01, 9)
    )
    rank: int = fieldbench.parameter(4, "largest rank", ge=1, search=(1, 7))

    def complete(
        self, observation: fieldbench.Observation, *, seed: int, device: str, report: fieldbench.Report
    ) -> fieldbench.FloatArray:
        from hyperimpute.plugins.imputers.plugin_softimpute import SoftImpute

        mean, spread = observation.observed.mean(), observation.observed.std() or 1.0
        table = ((observation.values - mean) / spread).reshape(-1, observation.shape[-1])
        rank = min(self.rank, *table.shape)
        soft = SoftImpute(max_rank=rank, shrink_lambda=self.shrink, random_state=seed)
        return mean + spread * soft.fit_transform(table).reshape(observation.shape)


@fieldbench.hookimpl
def fieldbench_register_methods() -> list[type[fieldbench.Method]]:
    return [Soft]
