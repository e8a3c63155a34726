"""Sound speed in the upper ocean: a canonical profile, vertical modes, eddies and internal waves.

Everything that moves is a vertical displacement of water, which takes its sound speed along and changes it
by the adiabatic gradient alone. Displacements are sums of the vertical modes of exponential stratification,
N(z) = N0 exp(-z / B), in the WKB approximation.

Sources:
- profile: Munk, "Sound channel in an exponentially stratified ocean, with application to SOFAR", J. Acoust.
  Soc. Am. 55 (1974), with a mixed layer above it;
- internal waves: Garrett and Munk, "Space-time scales of internal waves: a progress report", J. Geophys.
  Res. 80 (1975), in the form of Colosi and Brown, "Efficient numerical simulation of stochastic
  internal-wave-induced sound-speed perturbation fields", J. Acoust. Soc. Am. 103 (1998);
- eddies: near-Gaussian in shape, tens of kilometres in radius: Chelton, Schlax and Samelson, "Global
  observations of nonlinear mesoscale eddies", Prog. Oceanogr. 91 (2011);
- change of sound speed with temperature: Mackenzie, "Nine-term equation for sound speed in the oceans",
  J. Acoust. Soc. Am. 70 (1981).

Depths are in m, positive down; horizontal positions in km; displacements in m, positive down.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

Array = NDArray[np.float64]

#: Munk's canonical profile: speed at the sound channel's axis in m/s, its depth and the stratification scale in m.
AXIS_SPEED, AXIS_DEPTH, SCALE_DEPTH, PERTURBATION = 1492.0, 1300.0, 1300.0, 0.0074
#: Increase of sound speed with depth in well mixed water, in 1/s (pressure alone; Munk 1974: 0.0114 per km).
ADIABATIC_GRADIENT = 1.14e-5 * AXIS_SPEED
#: Depth over which the mixed layer passes into the thermocline, in m.
TRANSITION = 10.0
#: Garrett-Munk constants: buoyancy frequency extrapolated to the surface (3 cycles an hour, in rad/s), rms
#: displacement there in m, and the mode number at which the mode spectrum bends.
SURFACE_BUOYANCY, GARRETT_MUNK_DISPLACEMENT, MODE_BEND = 5.24e-3, 7.3, 3.0
#: Depth of the sea floor, in m, where displacements vanish as they do at the surface.
SEA_FLOOR = 4000.0
#: Plane waves of random direction and phase that make up one random horizontal pattern.
WAVES = 64


def potential_speed(depth: ArrayLike, mixed_layer: float) -> Array:
    """Sound speed of water from ``depth``, brought to the surface adiabatically, in m/s.

    Constant in the mixed layer; Munk's canonical profile below, with a soft passage between them.
    """
    below = TRANSITION * np.logaddexp(0.0, (np.asarray(depth, dtype=float) - mixed_layer) / TRANSITION)
    eta = 2 * (mixed_layer + below - AXIS_DEPTH) / SCALE_DEPTH
    speed = AXIS_SPEED * (1 + PERTURBATION * (eta + np.exp(-eta) - 1))
    return np.asarray(speed - ADIABATIC_GRADIENT * (mixed_layer + below))


def mixed_layer_share(depth: ArrayLike, mixed_layer: float) -> Array:
    """How much of a temperature anomaly of the mixed layer reaches ``depth``: 1 within it, fading below."""
    below = TRANSITION * np.logaddexp(0.0, (np.asarray(depth, dtype=float) - mixed_layer) / TRANSITION)
    return np.asarray(np.exp(-below / (mixed_layer / 2)))


def temperature_sensitivity(temperature: float, salinity: float = 35.0, depth: float = 0.0) -> float:
    """Change of sound speed with temperature in m/s per degree (derivative of Mackenzie's equation).

    Args:
        temperature: in degrees Celsius.
        salinity: in parts per thousand.
        depth: in m.
    """
    return float(
        4.591
        - 2 * 5.304e-2 * temperature
        + 3 * 2.374e-4 * temperature**2
        - 1.025e-2 * (salinity - 35.0)
        - 7.139e-13 * depth**3
    )


def mode_shapes(depth: ArrayLike, modes: int) -> Array:
    """Displacement of vertical modes 1 .. ``modes``: sqrt(N0 / N) sin(pi j xi), xi the stretched depth.

    Returns:
        Array of shape (modes, len(depth)); zero at the surface and at the sea floor.
    """
    z = np.asarray(depth, dtype=float)
    stretched = np.expm1(-z / SCALE_DEPTH) / np.expm1(-SEA_FLOOR / SCALE_DEPTH)
    number = np.arange(1, modes + 1)[:, np.newaxis]
    return np.asarray(np.exp(z / (2 * SCALE_DEPTH)) * np.sin(np.pi * number * stretched))


def gaussian_pattern(x: Array, y: Array, length: float, rng: np.random.Generator) -> Array:
    """A random horizontal pattern of unit variance and correlation exp(-d^2 / (2 length^2)).

    Args:
        x, y: coordinates of the grid's rows and columns, in the unit of ``length``.
        length: of the correlation.
        rng: draws.

    Returns:
        Array of shape (len(x), len(y)).
    """
    along_x, along_y = rng.normal(0.0, 1 / length, (2, WAVES))
    return _plane_waves(x, y, along_x, along_y, rng)


def eddy_pattern(x: Array, y: Array, count: int, radius: tuple[float, float], rng: np.random.Generator) -> Array:
    """The sum of ``count`` Gaussian eddies of either sense, with standard normal amplitudes.

    Centres are uniform over the area and a margin of the largest radius; radii are uniform.

    Args:
        x, y: coordinates of the grid's rows and columns, in the unit of ``radius``.
        count: of eddies.
        radius: the smallest and the largest.
        rng: draws.

    Returns:
        Array of shape (len(x), len(y)).
    """
    margin = radius[1]
    centres = [rng.uniform(axis.min() - margin, axis.max() + margin, count) for axis in (x, y)]
    radii, amplitudes = rng.uniform(*radius, count), rng.standard_normal(count)
    square = (x[:, np.newaxis, np.newaxis] - centres[0]) ** 2 + (y[np.newaxis, :, np.newaxis] - centres[1]) ** 2
    return np.asarray((amplitudes * np.exp(-square / (2 * radii**2))).sum(axis=-1))


def internal_waves(
    x: Array, y: Array, depth: Array, latitude: float, modes: int, shortest: float, rng: np.random.Generator
) -> Array:
    """Displacement by a Garrett-Munk field of internal waves at one instant, in m.

    Mode j has the share H_j ~ 1 / (j^2 + 3^2) of the variance and the horizontal wavenumber spectrum
    (4 / pi) k_j k^2 / (k^2 + k_j^2)^2, with k_j = pi j f / (N0 B).

    Args:
        x, y: positions in km.
        depth: depths in m.
        latitude: in degrees; it sets the inertial frequency f.
        modes: number of vertical modes.
        shortest: waves of shorter length, in km, are left out, as a grid cannot carry them.
        rng: the only source of randomness.

    Returns:
        Array of shape (len(x), len(y), len(depth)).
    """
    inertial = 2 * 7.2921e-5 * np.sin(np.deg2rad(abs(latitude)))
    number = np.arange(1, modes + 1)
    bends = 1e3 * np.pi * number * inertial / (SURFACE_BUOYANCY * SCALE_DEPTH)  # rad/km
    weights = mode_weights(modes)
    patterns = np.empty((len(x), len(y), modes))
    for index, bend in enumerate(bends):
        wavenumber, share = internal_wavenumbers(bend, 2 * np.pi / shortest, WAVES, rng)
        direction = rng.uniform(0.0, 2 * np.pi, WAVES)
        pattern = _plane_waves(x, y, wavenumber * np.cos(direction), wavenumber * np.sin(direction), rng)
        patterns[..., index] = np.sqrt(share) * pattern
    shapes = np.sqrt(2 * weights)[:, np.newaxis] * mode_shapes(depth, modes)
    return np.asarray(GARRETT_MUNK_DISPLACEMENT * np.einsum("xyj,jz->xyz", patterns, shapes))


def mode_weights(modes: int) -> Array:
    """Shares of the displacement variance of modes 1 .. ``modes``; all modes together have 1."""
    everything = np.arange(1, 100_001)
    spectrum = 1 / (everything**2 + MODE_BEND**2)
    return np.asarray(spectrum[:modes] / spectrum.sum())


def internal_wavenumbers(bend: float, largest: float, count: int, rng: np.random.Generator) -> tuple[Array, float]:
    """Wavenumbers drawn from (4 / pi) bend k^2 / (k^2 + bend^2)^2 below ``largest``.

    Args:
        bend: wavenumber at which the spectrum bends.
        largest: wavenumber that is drawn, in the unit of ``bend``.
        count: of wavenumbers.
        rng: draws.

    Returns:
        The wavenumbers, shape (count,), and the share of the spectrum's variance below ``largest``.
    """
    # With k = bend tan(angle) the distribution function is (2 angle - sin 2 angle) / pi.
    angle = np.linspace(0.0, np.arctan(largest / bend), 2001)
    cumulative = (2 * angle - np.sin(2 * angle)) / np.pi
    drawn = np.interp(rng.uniform(0.0, cumulative[-1], count), cumulative, angle)
    return np.asarray(bend * np.tan(drawn)), float(cumulative[-1])


def _plane_waves(x: Array, y: Array, along_x: Array, along_y: Array, rng: np.random.Generator) -> Array:
    """Plane waves of equal strength and random phase; unit variance at every point."""
    phase = rng.uniform(0.0, 2 * np.pi, len(along_x))
    first = np.exp(1j * (np.multiply.outer(x, along_x) + phase))
    second = np.exp(1j * np.multiply.outer(y, along_y))
    return np.asarray(np.sqrt(2 / len(along_x)) * np.einsum("xw,yw->xy", first, second).real)
