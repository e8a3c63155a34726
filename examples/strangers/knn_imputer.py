import fieldbench


class KNN(fieldbench.Method):
    """Columns of the last axis, filled from those most alike (KNNImputer of scikit-learn)."""

    name = "knn-imputer"
    neighbours: int = fieldbench.parameter(5, "columns that are averaged", ge=1, search=(2, 15))

    def complete(
        self, observation: fieldbench.Observation, *, seed: int, device: str, report: fieldbench.Report
    ) -> fieldbench.FloatArray:
        from sklearn.impute import KNNImputer

        table = observation.values.reshape(-1, observation.shape[-1])
        filled = KNNImputer(n_neighbors=self.neighbours, keep_empty_features=True).fit_transform(table)
        return filled.reshape(observation.shape)


@fieldbench.hookimpl
def fieldbench_register_methods() -> list[type[fieldbench.Method]]:
    return [KNN]
