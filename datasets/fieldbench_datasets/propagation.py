"""Radio propagation: path loss, correlated shadowing and power spectra of emitters.

The joint path loss and log-normal shadowing model of the paper (section V-B), in the form in which Shrestha,
Fu and Hong, "Deep spectrum cartography" (IEEE Transactions on Signal Processing, 2022) compute it: path loss
is flat close to the emitter, eta is the standard deviation of the shadowing in dB, and each spectrum has
one lobe that the other emitters hardly touch. Positions are in grid steps.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike, NDArray

Array = NDArray[np.float64]


def path_loss(emitters: Array, exponents: ArrayLike, grid: Sequence[int], flat_radius: float) -> Array:
    """Power that arrives without shadowing: min(1, (d / flat_radius) ** -exponent).

    Args:
        emitters: positions, shape (n, 2), in grid steps; they need not lie on the grid.
        exponents: path loss exponents, shape (n,).
        grid: number of grid points along x and y.
        flat_radius: distance in grid steps within which there is no loss.

    Returns:
        Array of shape (n, *grid), in (0, 1].
    """
    along_x = np.arange(grid[0])[np.newaxis, :, np.newaxis] - emitters[:, 0, np.newaxis, np.newaxis]
    along_y = np.arange(grid[1])[np.newaxis, np.newaxis, :] - emitters[:, 1, np.newaxis, np.newaxis]
    distance = np.maximum(np.hypot(along_x, along_y) / flat_radius, 1.0)
    return distance ** -np.asarray(exponents, dtype=float)[:, np.newaxis, np.newaxis]


def crossings(emitters: Array, walls: Array, grid: Sequence[int]) -> Array:
    """How many walls the straight path from an emitter to each grid point crosses.

    Args:
        emitters: positions, shape (n, 2), in grid steps.
        walls: both ends of each, shape (walls, 2, 2).
        grid: number of grid points along x and y.

    Returns:
        Array of shape (n, *grid).
    """

    def side(start: Array, end: Array, point: Array) -> Array:
        """On which side of the line from start to end a point lies: the sign."""
        along, to = end - start, point - start
        return np.asarray(along[..., 0] * to[..., 1] - along[..., 1] * to[..., 0])

    points = np.stack(np.meshgrid(*map(np.arange, grid), indexing="ij"), axis=-1).astype(float)
    source = emitters[:, np.newaxis, np.newaxis]
    count = np.zeros((len(emitters), *grid))
    for first, last in walls:
        apart = side(first, last, source) * side(first, last, points) < 0
        between = side(source, points, first) * side(source, points, last) < 0
        count += apart & between
    return count


@lru_cache(maxsize=2)
def shadowing_factor(grid: tuple[int, int], decorrelation: float) -> Array:
    """Cholesky factor of the correlation exp(-|m - m'| / decorrelation) over all grid points.

    Computed once for each grid and distance (0.3 s for 51 x 51 points, 54 MB) and kept.

    Returns:
        Lower triangular array of shape (points, points), points in C order. Read-only.
    """
    rows, columns = np.divmod(np.arange(grid[0] * grid[1]), grid[1])
    by_offset = np.exp(-np.hypot(*np.ogrid[: grid[0], : grid[1]]) / decorrelation)
    correlation = by_offset[np.abs(rows[:, np.newaxis] - rows), np.abs(columns[:, np.newaxis] - columns)]
    with _one_thread():
        factor = np.linalg.cholesky(correlation)
    factor.setflags(write=False)
    return factor


def shadowing(count: int, grid: tuple[int, int], decorrelation: float, rng: np.random.Generator) -> Array:
    """Correlated Gaussian shadowing of mean 0 and variance 1, shape (count, *grid).

    Args:
        count: of fields.
        grid: shape of each.
        decorrelation: distance of correlation 1/e, in grid steps.
        rng: draws.
    """
    from scipy.linalg.blas import dtrmm

    factor = shadowing_factor(grid, decorrelation)
    normals = rng.standard_normal((count, len(factor)))
    with _one_thread():
        # factor @ normals.T, at half the cost since the factor is triangular; the transposes make no copies.
        drawn = dtrmm(1.0, factor.T, normals.T, lower=0, trans_a=1)
    return np.ascontiguousarray(drawn.T).reshape(count, *grid)


def spatial_losses(
    count: int,
    rng: np.random.Generator,
    *,
    grid: tuple[int, int] = (51, 51),
    eta: ArrayLike = 6.0,
    decorrelation: float = 50.0,
    exponent: tuple[float, float] = (2.0, 2.5),
    flat_radius: float = 2.0,
) -> Array:
    """Spatial loss functions of emitters placed uniformly in the square, each of unit Frobenius norm.

    Path loss times 10 ** (v / 10), v the shadowing in dB. Suited to drawing thousands at once: all of one
    ``decorrelation`` share one Cholesky factor.

    Args:
        count: how many.
        rng: the only source of randomness.
        grid: number of grid points along x and y.
        eta: standard deviation of the shadowing in dB; one number, or one for each emitter.
        decorrelation: distance in grid steps at which the shadowing's correlation is 1 / e.
        exponent: range of the uniformly drawn path loss exponents.
        flat_radius: distance in grid steps within which there is no path loss.

    Returns:
        Array of shape (count, *grid), positive.
    """
    losses, _ = losses_and_paths(
        count, rng, grid=grid, eta=eta, decorrelation=decorrelation, exponent=exponent, flat_radius=flat_radius
    )
    return losses


def losses_and_paths(
    count: int,
    rng: np.random.Generator,
    *,
    grid: tuple[int, int],
    eta: ArrayLike,
    decorrelation: float,
    exponent: tuple[float, float],
    flat_radius: float,
    blocked: Callable[[Array, np.random.Generator], Array | float] = lambda emitters, rng: 1.0,
) -> tuple[Array, Array]:
    """What :func:`spatial_losses` returns, and the same without the shadowing, by the same norms.

    Args:
        count, rng, grid, eta, decorrelation, exponent, flat_radius: as there.
        blocked: of emitters' positions, shape (count, 2), the share of its power that each path keeps, by which path
            losses are multiplied.
    """
    emitters = rng.uniform(0.0, 1.0, (count, 2)) * (np.asarray(grid) - 1)
    exponents = rng.uniform(*exponent, count)
    decibels = np.broadcast_to(np.asarray(eta, dtype=float), (count,))[:, np.newaxis, np.newaxis]
    decibels = decibels * shadowing(count, grid, decorrelation, rng)
    paths = path_loss(emitters, exponents, grid, flat_radius) * blocked(emitters, rng)
    losses = paths * 10 ** (decibels / 10)
    norms = np.linalg.norm(losses, axis=(1, 2), keepdims=True)
    return losses / norms, paths / norms


def lobe(bins: int, centres: ArrayLike, widths: ArrayLike) -> Array:
    """Main lobe of sinc((k - centre) / width) ** 2 over bins k = 1 .. bins; zero beyond one width.

    Args:
        bins: their number.
        centres, widths: in bins; arrays that broadcast to one shape.

    Returns:
        Array of shape (*broadcast shape of centres and widths, bins).
    """
    centre, half_width = (np.asarray(item, dtype=float)[..., np.newaxis] for item in (centres, widths))
    offset: Array = (np.arange(1, bins + 1) - centre) / half_width
    shape: Array = np.sinc(offset) ** 2
    shape[np.abs(offset) > 1] = 0
    return shape


def private_centres(emitters: int) -> Array:
    """Centre bins of the lobes that belong to one emitter each: 2, 4.2, 6.4, ... Shape (emitters,)."""
    return 2.0 + 2.2 * np.arange(emitters, dtype=np.float64)


def shared_centres(emitters: int, bins: int) -> NDArray[np.int_]:
    """Bins where shared lobes may sit, clear of the private ones: 3 R + 3, 3 R + 5, ... up to bins - 2."""
    return np.arange(3 * emitters + 3, bins - 1, 2)


def power_spectra(
    emitters: int,
    rng: np.random.Generator,
    *,
    bins: int = 64,
    lobes: int = 15,
    private: bool = True,
    amplitude: tuple[float, float] = (0.5, 2.0),
    width: tuple[float, float] = (2.0, 4.0),
    private_width: tuple[float, float] = (2.0, 4.3),
) -> Array:
    """Power spectral densities, each of unit l2 norm.

    Every emitter has a lobe at each of ``lobes`` centres, drawn without replacement and common to all
    emitters, with its own width and amplitude; and a private lobe if ``private``.

    Args:
        emitters: how many spectra.
        rng: the only source of randomness.
        bins: number of frequency bins.
        lobes: number of shared lobes; at most as many as :func:`shared_centres` has room for.
        private: whether each emitter has a lobe of its own.
        amplitude: range of the uniformly drawn amplitudes of all lobes.
        width: range of the uniformly drawn half-widths of shared lobes, in bins.
        private_width: the same for private lobes.

    Returns:
        Array of shape (emitters, bins), non-negative.
    """
    spectra = np.zeros((emitters, bins))
    if private:
        own = lobe(bins, private_centres(emitters), rng.uniform(*private_width, emitters))
        spectra += rng.uniform(*amplitude, emitters)[:, np.newaxis] * own
    centres = rng.choice(shared_centres(emitters, bins), size=lobes, replace=False)
    shared = lobe(bins, centres, rng.uniform(*width, (emitters, lobes)))
    spectra += np.einsum("rl,rlk->rk", rng.uniform(*amplitude, (emitters, lobes)), shared)
    return spectra / np.linalg.norm(spectra, axis=1, keepdims=True)


def _one_thread() -> AbstractContextManager[object]:
    """BLAS rounds differently with other numbers of threads; a draw must not depend on them."""
    from threadpoolctl import threadpool_limits

    limited: AbstractContextManager[object] = threadpool_limits(1, "blas")
    return limited
