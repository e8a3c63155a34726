"""Withheld entries in the pattern of the gaps: whole slices, pieces like the gaps, the edge, or single entries."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations

import numpy as np

from fieldbench.errors import RequestError
from fieldbench.field import FloatArray, Mask

#: Gaps whose surroundings are looked at, and observed positions that are looked for around each.
_SAMPLE = 400
#: Part of a gap with observations on one side only from which the edge is imitated as well.
_ONE_SIDED = 0.15
#: How much deeper than the rest of a gap such a part is.
_DEEPER = 1.6
#: How much deeper than single entries gaps are, on average, where pieces are withheld.
_DEEP = 1.2
#: Part of the entries below which none are withheld in pieces.
_FEW_PIECES = 0.15
#: How much farther along an axis than across it a point is that lies on one side along the axis.
_CONE = 1.5
#: Part of the share that is withheld one by one beside whole slices.
_ALONE = 0.2
#: Positions that are tried for a piece; that with the most observed entries is taken.
_PLACES = 12
#: Pieces at most. Where more would be needed, gaps are so small that single entries make up for them.
_PIECES = 400
#: A piece less observed than this would say little of the gap that it imitates.
_LEAST_OBSERVED = 0.5
#: A gap whose box takes more than this part of an axis is imitated by windows cut out of it.
_LARGEST = 0.6


def withhold_like_gaps(
    observed: Mask,
    missing: Mask,
    share: float,
    rng: np.random.Generator,
    *,
    most: float | None = None,
    steps: Sequence[float] | None = None,
) -> Mask:
    """Choose about ``share`` of the observed entries, in the pattern of the missing ones.

    The mask tells what the pattern is. Where nothing is observed in a whole slice, row or fiber, whole observed ones
    are withheld. Among what is left, a gap at the edge of what was observed is imitated by the edge of what
    remains, other gaps by pieces of the same form elsewhere, and gaps between scattered observations by single
    entries, as many of them as bring the mean distance to the nearest observation to that of the gaps. Where nothing
    is missing, single entries are withheld.

    >>> observed = np.ones((8, 8), dtype=bool)
    >>> observed[:4, :4] = False
    >>> withheld = withhold_like_gaps(observed, ~observed, 0.25, np.random.default_rng(0))
    >>> int(withheld.sum()), bool((withheld & ~observed).any())
    (12, False)

    Args:
        observed: True = observed.
        missing: True = missing; entries of neither kind (land) do not count.
        share: of the observed entries, in (0, 1).
        rng: the only source of randomness.
        most: part of the observed entries that may be withheld where gaps are too large for ``share``; a piece that
            is larger is cut. ``share`` if None.
        steps: what a step along each axis counts in distances; 1 for all axes if None.

    Returns:
        Boolean array of the same shape, True = withheld: a part of ``observed``, never all of it.

    Raises:
        RequestError: if fewer than two positions are observed.
    """
    count = int(observed.sum())
    if not missing.any() and count > 1:
        return chosen_at_random(observed, min(max(1, round(share * count)), count - 1), rng)
    lengths = np.ones(observed.ndim) if steps is None else np.asarray(steps, dtype=float)
    withheld = np.zeros(observed.shape, dtype=bool)
    total, possible = int(missing.sum()), False
    for axes, gaps in _levels(observed, missing):
        others = tuple(axis for axis in range(observed.ndim) if axis not in axes)
        present = np.asarray(observed.any(axis=others))
        count = int(present.sum())
        if count < 2:
            continue
        possible = True
        part = int(gaps.sum()) / total
        wanted = min(max(round(share * part * count), 1 if part > share else 0), count - 1)
        if wanted:
            limit = min(max(wanted, round((share if most is None else most) * part * count)), count - 1)
            pattern = _Pattern(present, np.asarray(gaps.any(axis=others)), rng, lengths[list(axes)])
            chosen = pattern.chosen(wanted, limit)
            withheld |= np.expand_dims(chosen, others) & observed
    if not possible:
        raise RequestError(
            "only one position is observed, so none can be withheld; "
            "a method that is named and --budget 0 complete the field without an estimate of the error"
        )
    if len(axes) < observed.ndim or not withheld.any():
        # Where whole slices are missing in a regular pattern, those withheld leave wider gaps than there are.
        left = observed & ~withheld
        alone = min(max(round(_ALONE * share * int(observed.sum())), int(not withheld.any())), int(left.sum()) - 1)
        withheld |= chosen_at_random(left, max(alone, 0), rng)
    return withheld


def one_sided(at: FloatArray, among: FloatArray) -> Mask:
    """For each point (n, d) whether no axis has observations (m, d) on both sides of it, in cones around the axis."""
    apart = among[np.newaxis] - at[:, np.newaxis]
    size = np.abs(apart)
    enclosed = np.zeros(len(at), dtype=bool)
    for axis in range(at.shape[1]):
        others = np.delete(size, axis, axis=2).max(axis=2, initial=0.0)
        along = size[..., axis] >= np.maximum(_CONE * others, np.finfo(float).tiny)
        ahead, behind = ((along & (sign * apart[..., axis] > 0)).any(axis=1) for sign in (1, -1))
        enclosed |= ahead & behind
    return ~enclosed


def distances(observed: Mask, steps: Sequence[float] | FloatArray | None = None) -> FloatArray:
    """Distance of every entry to the nearest observed one, in grid steps or in what a step counts."""
    from scipy.ndimage import distance_transform_edt

    return np.asarray(distance_transform_edt(~observed, sampling=None if steps is None else list(steps)))


def _levels(observed: Mask, missing: Mask) -> Iterator[tuple[tuple[int, ...], Mask]]:
    """Sets of axes, fewest first, with the gaps at positions along them where nothing at all is observed."""
    left, order = missing.copy(), observed.ndim
    for number in range(1, order + 1):
        for axes in combinations(range(order), number):
            seen = observed.any(axis=tuple(axis for axis in range(order) if axis not in axes), keepdims=True)
            gaps = left & ~seen
            if gaps.any():
                left &= seen
                yield axes, gaps


def chosen_at_random(present: Mask, count: int, rng: np.random.Generator) -> Mask:
    """A mask with exactly ``count`` of the present entries, uniformly at random.

    >>> chosen_at_random(np.array([True, False, True]), 2, np.random.default_rng(0)).tolist()
    [True, False, True]

    Args:
        present: boolean array of any shape.
        count: at most as many as are present.
        rng: the only source of randomness.
    """
    chosen = np.zeros(present.size, dtype=bool)
    chosen[rng.choice(np.flatnonzero(present), size=count, replace=False)] = True
    return chosen.reshape(present.shape)


class _Pattern:
    """Positions along some axes, and the gaps among them that are imitated."""

    def __init__(self, present: Mask, missing: Mask, rng: np.random.Generator, steps: FloatArray) -> None:
        from scipy.ndimage import label

        self._present, self._missing, self._rng, self._steps = present, missing, rng, steps
        self._depth = distances(present, steps)
        self._labels, _ = label(missing, np.ones((3,) * missing.ndim))

    def chosen(self, wanted: int, limit: int) -> Mask:
        """Withheld positions among those present: at the edge, in pieces, and one by one."""
        missing, outside = self._missing, self._outside()
        at_edge = (outside > _ONE_SIDED)[self._labels] & missing
        edge_share = float(outside[self._labels[at_edge]].sum() / missing.sum())
        withheld = np.zeros(missing.shape, dtype=bool)
        if at_edge.any():
            withheld = self._edge(at_edge, round(min(1.0, 2 * edge_share) * limit))
        inner, left = missing & (outside < 0.5)[self._labels], self._present & ~withheld
        room = limit - int(withheld.sum())
        quota = min(round((1 - edge_share) * wanted), room)
        if quota <= 0 or not inner.any():
            return withheld
        pieces = self._pieces(left, inner, quota, room)
        single = chosen_at_random(left, quota, self._rng)
        far, near = (float(distances(self._present & ~taken, self._steps)[taken].mean()) for taken in (pieces, single))
        goal = float(self._depth[inner].mean())
        part = 0.0 if goal <= _DEEP * near or far <= near else float(np.clip((goal - near) / (far - near), 0.0, 1.0))
        if part == 1.0:
            return withheld | pieces
        # A piece is never cut short, so for a small part of the entries even one would be too many.
        kept = self._pieces(left, inner, round(part * quota) if part > _FEW_PIECES else 0, room)
        alone = chosen_at_random(left & ~kept, max(quota - int(kept.sum()), 0), self._rng)
        return withheld | kept | alone

    def _outside(self) -> FloatArray:
        """For each connected gap (from index 1) what part of it has observations on one side only, along every axis.

        0 where that part is hardly deeper than the rest, as at the rim of scattered observations.
        """
        at, among = (
            np.argwhere(chosen_at_random(entries, min(_SAMPLE * more, int(entries.sum())), self._rng))
            for entries, more in ((self._missing, 1), (self._present, 4))
        )
        alone = one_sided(at * self._steps, among * self._steps)
        own, deep = self._labels[tuple(at.T)], self._depth[tuple(at.T)]

        def count(some: Mask, weights: FloatArray) -> FloatArray:
            counts = np.bincount(own[some], weights=weights[some], minlength=int(self._labels.max()) + 1)
            return np.asarray(counts, dtype=float)

        outer, inner = (count(some, np.ones(len(at))) for some in (alone, ~alone))
        outer_depth, inner_depth = (
            count(some, deep) / np.maximum(number, 1) for some, number in ((alone, outer), (~alone, inner))
        )
        deeper = outer_depth > _DEEPER * np.maximum(inner_depth, self._steps.min())
        return np.where(deeper, outer / np.maximum(outer + inner, 1), 0.0)

    def _edge(self, gaps: Mask, limit: int) -> Mask:
        """What is observed nearest to gaps at the edge, as deep as these are or as the limit allows."""
        away = np.where(self._present, distances(gaps, self._steps), np.inf)
        deepest = float(np.quantile(self._depth[gaps], self._rng.uniform(0.9, 1.0), method="higher"))
        order = np.argsort(away, axis=None, kind="stable")[: max(limit, 1)]
        withheld = np.zeros(away.size, dtype=bool)
        withheld[order[away.ravel()[order] <= deepest]] = True
        return withheld.reshape(away.shape)

    def _pieces(self, present: Mask, missing: Mask, least: int, most: int) -> Mask:
        """Observed positions under pieces of the gaps put elsewhere, about as many as these numbers say."""
        from scipy.ndimage import find_objects

        rng, labels, depth = self._rng, self._labels, self._depth
        free, boxes, sources, count = present.copy(), find_objects(labels), np.flatnonzero(missing), 0
        deep = sources[depth.ravel()[sources] >= np.quantile(depth.ravel()[sources], 0.95)]
        for number in range(_PIECES):
            if count >= least:
                break
            # The deepest gaps are few and matter most, so one of them comes first.
            entry = np.unravel_index(int(rng.choice(sources if number else deep)), missing.shape)
            box = boxes[int(labels[entry]) - 1]
            if any(part.stop - part.start > _LARGEST * size for part, size in zip(box, missing.shape, strict=True)):
                width = np.ceil(4 * depth[entry] / self._steps).astype(int)
                box = tuple(
                    slice(max(at - half, 0), min(at + half + 1, size))
                    for at, half, size in zip(entry, width, missing.shape, strict=True)
                )
            piece = missing[box] & (labels[box] == labels[entry])
            piece = np.flip(piece, tuple(np.flatnonzero(rng.random(piece.ndim) < 0.5).tolist()))
            new = _placed(piece, free, rng)
            if new is None:
                continue
            region, entries = new
            if count + int(entries.sum()) > most:
                entries = _innermost(entries, most - count)
            free[region] &= ~entries
            count += int(entries.sum())
        return present & ~free if count else chosen_at_random(present, least, rng)


def _placed(piece: Mask, free: Mask, rng: np.random.Generator) -> tuple[tuple[slice, ...], Mask] | None:
    """Where a piece covers most observed entries, of some positions, and which; None where it covers too few."""
    best: tuple[tuple[slice, ...], Mask] | None = None
    most = _LEAST_OBSERVED * (int(np.count_nonzero(free)) / free.size) * int(piece.sum())
    for _ in range(_PLACES):
        corner = rng.integers(np.array(free.shape) - piece.shape + 1)
        region = tuple(slice(start, start + size) for start, size in zip(corner, piece.shape, strict=True))
        entries = piece & free[region]
        if entries.sum() > most:
            best, most = (region, entries), int(entries.sum())
    return best


def _innermost(entries: Mask, count: int) -> Mask:
    """The entries of a piece that are nearest to its middle."""
    points = np.argwhere(entries)
    order = np.argsort(((points - points.mean(axis=0)) ** 2).sum(axis=1), kind="stable")[:count]
    kept = np.zeros(entries.shape, dtype=bool)
    kept[tuple(points[order].T)] = True
    return kept
