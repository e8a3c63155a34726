"""Attention maps: which cubes of the observed field each cube of the core is made of (paper, section III-B)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol, runtime_checkable

from matplotlib.colors import PowerNorm
from matplotlib.figure import Figure
from numpy.typing import ArrayLike

from fieldbench.execution.again import attention
from fieldbench.field import FloatArray, Observation
from fieldbench.records import trial_of
from fieldbench.report.figures import NothingToDraw, View
from fieldbench.report.figures.colours import Look, looks
from fieldbench.report.figures.layout import grid, heading, panel_width, size_of, wrapped
from fieldbench.report.stored import StoredRun
from fieldbench.store.secret import secrets_of


@runtime_checkable
class Attentive(Protocol):
    """What a method offers that has an attention map to show. Nothing else of fieldbench asks for it."""

    def attention(self, observation: Observation, *, seed: int, device: str) -> ArrayLike:
        """The attention map after training as :meth:`fieldbench.Method.complete` does with the same arguments.

        Args:
            observation: as :meth:`fieldbench.Method.complete` gets it.
            seed: of the method.
            device: where it is trained.

        Returns:
            A matrix of shape (N, h N): row n holds the weights of cube n, h heads beside one another.
        """


def draw(run: StoredRun, view: View) -> Iterator[tuple[str, Figure]]:
    """One figure a setting: the map of every method that has one, for one draw, trained anew.

    Raises:
        NothingToDraw: if no method of the run has an attention map.
    """
    styles = looks(run.methods, run.labels, view.colours)
    able = {text: method for text in run.methods if isinstance(method := run.registry.method(text), Attentive)}
    if not able:
        raise NothingToDraw("no method of this run has an attention map")
    secrets = secrets_of(run.path)
    for setting in run.settings:
        title, rows = run.draw(setting, view.trial)
        shown = {text: attention(trial_of(rows[text]), run.registry, secrets) for text in able if text in rows}
        if shown:
            yield title, _figure(title, shown, styles, view)


def _figure(title: str, shown: dict[str, FloatArray], styles: dict[str, Look], view: View) -> Figure:
    figure, axes = grid(len(shown), view.width, 2.2, 2.2)
    for ax, (text, heads) in zip(axes, shown.items(), strict=True):
        weights = heads.reshape(len(heads), -1)
        # Most weights are small or zero; the square root shows them without hiding the large ones.
        image = ax.imshow(
            weights, cmap="magma_r", norm=PowerNorm(0.5, 0, weights.max()), aspect="auto", interpolation="nearest"
        )
        ax.grid(visible=False)
        ax.set_title(wrapped(styles[text].name, panel_width(figure), size_of("axes.title")))
        ax.set_xlabel("key cube" if weights.shape[0] == weights.shape[1] else "key cube, head by head")
        ax.set_ylabel("query cube")
        share = 100 * float((weights != 0).mean())
        figure.colorbar(image, ax=ax, label=f"weight ({share:.3g} % not zero)")
    heading(figure, title)
    return figure
