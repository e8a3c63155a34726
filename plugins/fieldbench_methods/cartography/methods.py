"""Nasdac and DowJons as methods: their parameters, and when they apply."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar, Literal

import numpy as np
from pydantic import PositiveInt

import fieldbench
from fieldbench import DataPath, FloatArray, Log, Value, is_fiber_mask, located, parameter
from fieldbench_methods.cartography.prior import LossFieldPrior

if TYPE_CHECKING:
    from fieldbench_methods.cartography.autoencoder import Autoencoder
    from fieldbench_methods.cartography.nasdac import Separated

_SOURCE = "Shrestha, Fu, Hong, IEEE TSP 70, 2022"
_GRID = (51, 51)


class Nasdac(fieldbench.Method):
    """Separates the emitters of a radio map and completes each with a trained autoencoder.

    For power over a 51 x 51 plane and frequency, measured by sensors that hear every bin. Successive
    projection finds a bin for each emitter in which it alone is heard; least squares give the spectra; the
    autoencoder completes each emitter's spatial loss. Shrestha, Fu and Hong, "Deep spectrum cartography",
    IEEE Transactions on Signal Processing 70, 2022.

    It rests on training data (`fieldbench train-prior nasdac`), and on the number of emitters, which the
    dataset gives as the published experiments do; ``emitters=estimate`` counts them in the measurements
    instead. Power is expected on the scale of the radio-map datasets: unit norm for each emitter's spatial
    loss and for each spectrum.
    """

    name = "nasdac"
    revision = "1"
    trained = True
    libraries = ("torch",)
    requires: ClassVar[Mapping[str, str]] = {"torch": "torch"}
    orders = (3,)
    scale_equivariant = False
    conformance_dataset = "radiomap[emitters=2,bins=16]"
    prior_training: ClassVar[type[LossFieldPrior]] = LossFieldPrior

    weights: DataPath | None = parameter(
        None, "file of the autoencoder's weights: safetensors, or Deep-SC's slf_network.pt; none: the shipped prior"
    )
    emitters: PositiveInt | Literal["estimate"] | None = parameter(
        None, "number of emitters; none: as the dataset gives it; estimate: counted in the measurements", source=_SOURCE
    )

    def fingerprint(self) -> str:
        """The hash of the shipped prior; other weights are named by their hash already."""
        from fieldbench_methods.cartography.weight_files import SHIPPED, sha256

        return sha256(SHIPPED) if self.weights is None else ""

    def applicable(self, observation: fieldbench.Observation) -> str | None:
        reason = super().applicable(observation)
        if reason is not None:
            return reason
        if observation.shape[:2] != _GRID:
            found = "x".join(map(str, observation.shape[:2]))
            return f"the prior of {self.name} is for 51x51 positions; this field has {found}"
        if not is_fiber_mask(observation.mask):
            return f"{self.name} needs sensors that measure every frequency bin; use the sampler fibers"
        if self.emitters is None and "emitters" not in observation.metadata:
            return f"{self.name} needs the number of emitters, which this dataset does not give; set emitters=estimate"
        return None

    def complete(
        self, observation: fieldbench.Observation, *, seed: int, device: str, report: fieldbench.Report
    ) -> FloatArray:
        from fieldbench_methods.cartography import nasdac

        separated = self._separated(observation)
        if len(separated.losses) == 0:  # nothing is heard anywhere
            return np.zeros(observation.shape)
        return nasdac.complete(self._network(), separated)

    def check_shape(self, shape: Sequence[int]) -> None:
        """Look at weights that are not the shipped ones, so that a wrong file is refused before any trial."""
        if self.weights is not None:
            self._network()

    def _network(self) -> Autoencoder:
        from fieldbench_methods.cartography.weight_files import SHIPPED, load

        return load(SHIPPED if self.weights is None else located(self.weights))

    def _separated(self, observation: fieldbench.Observation) -> Separated:
        from fieldbench_methods.cartography.nasdac import Separated
        from fieldbench_methods.cartography.separation import count_emitters

        sensors = np.asarray(observation.mask.any(axis=-1))
        power = observation.values[sensors].astype(np.float64)
        if self.emitters == "estimate":
            emitters = count_emitters(power)
        else:
            emitters = int(observation.metadata["emitters"]) if self.emitters is None else self.emitters
        return Separated.of(sensors, power, emitters)


class DowJons(Nasdac):
    """Searches a trained prior's latent space for the emitters that explain the measurements best.

    Starts from Nasdac's answer and alternates between spectra (non-negative least squares, bin by bin) and
    latent vectors of the spatial losses (a few Adam steps through the frozen decoder), until a round improves
    the residual at the sensors by less than ``tolerance``. Shrestha, Fu and Hong, IEEE Transactions on
    Signal Processing 70, 2022. Training data, number of emitters and scale: as for Nasdac.
    """

    name = "dowjons"
    libraries = ("torch",)
    revision = "1"
    conformance_parameters: ClassVar[dict[str, Value]] = {"rounds": 2, "steps": 2}

    rounds: int = parameter(10, "rounds at most", ge=1, source=_SOURCE, search=(2, 20))
    steps: int = parameter(10, "Adam steps in a round", ge=1, source=_SOURCE, search=(5, 40))
    learning_rate: float = parameter(0.01, "learning rate of Adam", gt=0, source=_SOURCE, search=Log(1e-3, 0.1))
    tolerance: float = parameter(
        3e-3, "least improvement of the residual's Frobenius norm for another round", ge=0, source=_SOURCE
    )

    def complete(
        self, observation: fieldbench.Observation, *, seed: int, device: str, report: fieldbench.Report
    ) -> FloatArray:
        from fieldbench_methods.cartography import dowjons

        search = dowjons.CodeSearch(self.rounds, self.steps, self.learning_rate, self.tolerance)
        separated = self._separated(observation)
        if len(separated.losses) == 0:
            return np.zeros(observation.shape)
        for number, state in enumerate(dowjons.rounds(self._network(), separated, search), 1):
            if report.due(number):
                report(number, state.estimate, residual=state.residual)
        return state.estimate
