import fieldbench


class Iterative(fieldbench.Method):
    """Each entry along the last axis regressed on the others, in turn (IterativeImputer of scikit-learn)."""

    name = "iterative-imputer"
    scale_equivariant = False  # its Bayesian ridge has priors of a fixed size
    rounds: int = fieldbench.parameter(10, "rounds over all entries", ge=1, search=(3, 30))

    def complete(
        self, observation: fieldbench.Observation, *, seed: int, device: str, report: fieldbench.Report
    ) -> fieldbench.FloatArray:
        from sklearn.experimental import enable_iterative_imputer  # noqa: F401
        from sklearn.impute import IterativeImputer

        table = observation.values.reshape(-1, observation.shape[-1])
        imputer = IterativeImputer(max_iter=self.rounds, random_state=seed, keep_empty_features=True)
        return imputer.fit_transform(table).reshape(observation.shape)


@fieldbench.hookimpl
def fieldbench_register_methods() -> list[type[fieldbench.Method]]:
    return [Iterative]
