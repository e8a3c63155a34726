"""The built-in completion methods, registered like any other plugin.

Importing this package imports neither torch nor numba: each method imports what it computes with when it
is first used.
"""

from __future__ import annotations

import fieldbench


@fieldbench.hookimpl
def fieldbench_register_methods() -> list[type[fieldbench.Method] | type[fieldbench.Modifier]]:
    from fieldbench_methods.bcpf import BCPF
    from fieldbench_methods.cartography.methods import DowJons, Nasdac
    from fieldbench_methods.conformal import Conformal
    from fieldbench_methods.dineof import Dineof
    from fieldbench_methods.ensemble import Ensemble
    from fieldbench_methods.fieldformer.methods import MHTAP, TAP
    from fieldbench_methods.image_prior import DeepImagePrior
    from fieldbench_methods.inpainting import Biharmonic, Harmonic
    from fieldbench_methods.interpolation import InverseDistance, Linear, Nearest
    from fieldbench_methods.kriging import Kriging
    from fieldbench_methods.lrtc import LRTC
    from fieldbench_methods.polynomial import Polynomial
    from fieldbench_methods.residual import Residual
    from fieldbench_methods.siren import Siren
    from fieldbench_methods.slices import Slices
    from fieldbench_methods.soft_impute import SoftImpute
    from fieldbench_methods.splines import RadialBasis, ThinPlate
    from fieldbench_methods.tiles import Tiles
    from fieldbench_methods.tnn import TNN
    from fieldbench_methods.transforms import Anomaly, Logarithm, Standardised
    from fieldbench_methods.tucker_als import TuckerALS
    from fieldbench_methods.tuned import Tuned
    from fieldbench_methods.tv import TotalVariation

    return [
        TAP,
        MHTAP,
        TNN,
        TotalVariation,
        Slices,
        Tiles,
        Logarithm,
        Standardised,
        Anomaly,
        Residual,
        TuckerALS,
        LRTC,
        Nearest,
        InverseDistance,
        Linear,
        Polynomial,
        ThinPlate,
        RadialBasis,
        Kriging,
        Harmonic,
        Biharmonic,
        Dineof,
        SoftImpute,
        BCPF,
        Siren,
        DeepImagePrior,
        Nasdac,
        DowJons,
        Conformal,
        Ensemble,
        Tuned,
    ]
