import fieldbench


class Inpainting(fieldbench.Method):
    """Biharmonic inpainting of an image of any dimension (scikit-image)."""

    name = "skimage-biharmonic"
    requires = {"skimage": "scikit-image"}

    def complete(
        self, observation: fieldbench.Observation, *, seed: int, device: str, report: fieldbench.Report
    ) -> fieldbench.FloatArray:
        from skimage.restoration import inpaint_biharmonic

        return inpaint_biharmonic(observation.filled(observation.observed.mean()), ~observation.mask)


@fieldbench.hookimpl
def fieldbench_register_methods() -> list[type[fieldbench.Method]]:
    return [Inpainting]
