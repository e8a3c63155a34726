"""Colours and markers of methods: they follow from the name alone, and are the same in every run and figure."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any, TypeAlias
from zlib import crc32

import matplotlib
import numpy as np
from matplotlib.colors import is_color_like, to_hex, to_rgb, to_rgba

from fieldbench.errors import RequestError, nearest
from fieldbench.report.labels import called
from fieldbench.spec import name_of, parse

#: A hue in degrees of CIELAB, None for grey.
Hue: TypeAlias = float | None

#: Methods that share a hue and differ in lightness; what everything is compared with is grey.
FAMILIES: tuple[tuple[Hue, tuple[str, ...]], ...] = (
    (None, ("nearest", "linear", "idw")),
    (205, ("harmonic", "biharmonic")),
    (275, ("thin-plate", "rbf", "kriging")),
    (145, ("tucker-als", "lrtc", "soft-impute", "bcpf", "dineof")),
    (45, ("tap", "mhtap", "tnn")),
    (340, ("siren", "deep-image-prior")),
    (80, ("nasdac", "dowjons")),
)

#: In CIELAB on white, of the members of a family in their order.
LIGHTNESS = (45.0, 32.0, 52.0, 38.0, 58.0)

#: The same, of methods of no family.
STRANGE = (34.0, 42.0, 50.0)

MARKERS = ("o", "s", "^", "D", "v", "P", "X", "<", ">", "p", "h", "d")
DASHES: tuple[tuple[int, tuple[float, ...]], ...] = ((0, ()), (0, (5, 1.5)), (0, (1.5, 1)), (0, (5, 1.5, 1.5, 1.5)))

#: Contrast of text with its ground that readers need (WCAG 2, level AA).
READABLE = 4.5

#: Contrast of a chosen colour with the ground: less than the palest blue of Okabe and Ito's palette has is refused.
SEEN = 2.0

_DARKEST, _LIGHTEST = 26.0, 58.0  # lightness in CIELAB on white


@dataclass(frozen=True)
class Look:
    """How a method is drawn.

    Attributes:
        name: what it is called.
        colour: of its lines and points.
        marker: matplotlib's.
        dash: matplotlib's style of its line.
        filled: whether its marker is.
    """

    name: str
    colour: str
    marker: str
    dash: tuple[int, tuple[float, ...]]
    filled: bool = True

    @property
    def points(self) -> dict[str, Any]:
        """Its points, in matplotlib's words."""
        edge, fill = (0.0, "full") if self.filled else (0.9, "none")
        return {"color": self.colour, "marker": self.marker, "markeredgewidth": edge, "fillstyle": fill}


def looks(
    methods: Sequence[str], labels: Mapping[str, str] | None = None, chosen: Mapping[str, str] | None = None
) -> dict[str, Look]:
    """A look for each method: its colour is the same in every run.

    Each has a marker of its own, filled or open, since two colours may look alike to a reader; where there are more
    methods than markers, those of one marker differ in their dash.

    Args:
        methods: specs.
        labels: what to call them.
        chosen: colours to use in place of the rule's, by spec, label or the name that several specs share.

    Raises:
        RequestError: if a colour is chosen for no method of these, is none, or cannot be seen on the ground.
    """
    chosen, labels = chosen or {}, labels or {}
    keys = {method: (method, called(method, labels), name_of(method)) for method in methods}
    for key, colour in chosen.items():
        _must_be_seen(key, colour, [name for known in keys.values() for name in known])
    found: dict[str, Look] = {}
    for method in methods:
        look = _look(method, called(method, labels))
        colours = [chosen[key] for key in keys[method] if key in chosen]
        if colours:
            look = replace(look, colour=to_hex(colours[0]))
        found[method] = _told_apart(look, list(found.values()))
    return found


def _must_be_seen(key: str, colour: str, known: Sequence[str]) -> None:
    if key not in known:
        raise RequestError(f"a colour is for {key!r}, which is not drawn{nearest(key, known)}")
    if not is_color_like(colour) or to_rgba(colour)[3] < 1:
        raise RequestError(f"the colour of {key} is {colour!r}; write a name or #rrggbb, such as {key}=#0072b2")
    ground = matplotlib.rcParams["figure.facecolor"]
    if contrast(to_hex(colour), ground) < SEEN:
        kind = "a lighter" if luminance(ground) < 0.2 else "a darker"
        raise RequestError(f"the colour of {key} is {colour!r}, which cannot be seen on the ground; take {kind} one")


def _told_apart(look: Look, others: Sequence[Look]) -> Look:
    """The look with a marker that no other has, as far as there are some: the next ones are open, or differ in dash."""
    turned = MARKERS[(first := MARKERS.index(look.marker)) :] + MARKERS[:first]
    dashes = [look.dash, *(dash for dash in DASHES if dash != look.dash)]
    forms, dashed = {(other.marker, other.filled) for other in others}, {replace(other, name="") for other in others}
    lines = {(other.marker, other.filled, other.dash) for other in others}
    candidates = (
        replace(look, marker=marker, filled=filled, dash=dash)
        for dash, filled, marker in product(dashes, (True, False), turned)
    )

    def shared(one: Look) -> tuple[bool, bool, bool]:
        form = (one.marker, one.filled)
        return form in forms, (*form, one.dash) in lines, replace(one, name="") in dashed

    return min(candidates, key=shared)


def _look(method: str, name: str) -> Look:
    first = parse(method)[0].name
    number, own = crc32(method.encode()), crc32(first.encode())
    families = [family for family, (_, members) in enumerate(FAMILIES) if first in members]
    if families:
        hue, members = FAMILIES[families[0]]
        index = members.index(first)
        lightness, marker = LIGHTNESS[index], MARKERS[(families[0] + index) % len(MARKERS)]
    else:
        hue, lightness = 10.0 * (own % 36), STRANGE[own // 36 % len(STRANGE)]
        marker = MARKERS[own // 108 % len(MARKERS)]
    dash = DASHES[0]
    if method != first:  # parameters and modifiers move the colour of the method a little
        hue = None if hue is None else hue + 7 * (number % 5 - 2)
        lightness += 4 * (number // 5 % 7 - 3)
        marker, dash = MARKERS[number // 35 % len(MARKERS)], DASHES[number // 420 % len(DASHES)]
    return Look(name, _on_ground(min(max(lightness, _DARKEST), _LIGHTEST), hue), marker, dash)


def _on_ground(lightness: float, hue: Hue) -> str:
    """A colour that is as far from a dark ground as ``lightness`` is from white."""
    if luminance(matplotlib.rcParams["figure.facecolor"]) < 0.2:
        lightness = 102 - 0.75 * lightness
    return to_hex(_from_lightness(lightness, hue))


def _from_lightness(lightness: float, hue: Hue) -> tuple[float, float, float]:
    """Red, green and blue, in 0 to 1, of a colour in CIELAB (D65), as far from grey as a screen shows, 62 at most."""
    matrix = np.array([[3.2406, -1.5372, -0.4986], [-0.9689, 1.8758, 0.0415], [0.0557, -0.2040, 1.0570]])
    for chroma in np.arange(0 if hue is None else 62.0, -1, -1.0):
        a, b = chroma * math.cos(math.radians(hue or 0)), chroma * math.sin(math.radians(hue or 0))
        y = (lightness + 16) / 116
        roots = np.array([y + a / 500, y, y - b / 200])
        xyz = np.where(roots > 6 / 29, roots**3, 3 * (6 / 29) ** 2 * (roots - 4 / 29)) * [0.9505, 1.0, 1.089]
        linear = matrix @ xyz
        if (linear >= -1e-3).all() and (linear <= 1.001).all():
            break
    linear = np.clip(linear, 0, 1)
    red, green, blue = np.where(linear <= 0.0031308, 12.92 * linear, 1.055 * linear ** (1 / 2.4) - 0.055)
    return float(red), float(green), float(blue)


def luminance(colour: str) -> float:
    """Relative luminance of a colour, 0 to 1 (WCAG 2)."""
    parts = np.array(to_rgb(colour))
    linear = np.where(parts <= 0.04045, parts / 12.92, ((parts + 0.055) / 1.055) ** 2.4)
    return float(linear @ [0.2126, 0.7152, 0.0722])


def contrast(one: str, other: str) -> float:
    """Contrast of two colours, 1 to 21 (WCAG 2)."""
    dark, light = sorted([luminance(one), luminance(other)])
    return (light + 0.05) / (dark + 0.05)


def readable(colour: str) -> str:
    """A colour for text: moved towards that of all other text until it has enough contrast with the ground."""
    ground, ink = (matplotlib.rcParams[name] for name in ("figure.facecolor", "text.color"))
    start, end = np.array(to_rgb(colour)), np.array(to_rgb(ink))
    mixed = (to_hex(start + share * (end - start)) for share in np.linspace(0, 1, 21))
    return next(text for text in mixed if contrast(text, ground) >= READABLE)
