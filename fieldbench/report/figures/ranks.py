"""Mean ranks over settings with critical differences (Demsar 2006)."""

from __future__ import annotations

import numpy as np
from matplotlib.figure import Figure

from fieldbench.errors import RequestError
from fieldbench.report.comparison import compare
from fieldbench.report.figures import View, _need
from fieldbench.report.figures.style import PAGE, looks
from fieldbench.report.numbers import p_text
from fieldbench.report.stored import StoredRun


def draw(run: StoredRun, view: View) -> dict[str, Figure]:
    """The critical-difference diagram: methods at their mean rank over all settings, and a bar across those
    that Nemenyi's test at 5 % does not tell apart.

    Raises:
        RequestError: if fewer than three methods have a score in at least two settings in common.
    """
    _need("scikit_posthocs", "ranks")
    import scikit_posthocs

    comparison = compare(run.frame, run.metadata)
    ranks = comparison.ranks()
    if len(ranks.methods) < 3 or ranks.settings < 2:
        raise RequestError(
            f"ranks need three methods and two settings in which all have a score; this run has "
            f"{len(ranks.methods)} and {ranks.settings}"
        )
    signs = np.where(comparison.higher_is_better, -1.0, 1.0)
    scores = (comparison.scores * signs[:, None]).dropna()
    names = {method: look.name for method, look in looks(run.methods).items()}
    scores = scores.rename(columns=names)
    tests = scikit_posthocs.posthoc_nemenyi_friedman(scores.to_numpy())
    tests.index = tests.columns = scores.columns
    colours = {look.name: look.colour for look in looks(run.methods).values()}
    figure = Figure(figsize=(0.75 * PAGE, 0.9 + 0.22 * len(names)), layout="constrained")
    ax = figure.subplots()
    means = {names[method]: mean for method, mean in zip(ranks.methods, ranks.means, strict=True)}
    scikit_posthocs.critical_difference_diagram(
        means,
        tests,
        ax=ax,
        color_palette=colours,
        label_fmt_left="{label} ({rank:.2g}) ",
        label_fmt_right=" ({rank:.2g}) {label}",
    )
    figure.suptitle(
        f"mean rank over {ranks.settings} settings, 1 is best (Friedman p = {p_text(ranks.friedman)}; "
        "bars: no difference by Nemenyi's test at 5 %)".replace("= <", "<"),
        fontsize=7,
    )
    figure.set_label(f"{ranks.settings} settings")
    return {"ranks": figure}
