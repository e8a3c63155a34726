"""Options that choose a part of a run."""

from __future__ import annotations

from fieldbench.cli.options import levels


def test_several_levels_of_several_factors() -> None:
    asked = levels(["method=tap[window=3,stride=1],tnn", "rate = 0.1", "method=idw"])
    assert asked == {"method": ["tap[window=3,stride=1]", "tnn", "idw"], "rate": ["0.1"]}
