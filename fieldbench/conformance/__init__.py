"""The checks that every plugin must pass, for a test suite or for ``fieldbench check NAME``.

    import pytest
    from fieldbench import conformance

    @pytest.mark.parametrize("check", conformance.checks(MyMethod()), ids=str)
    def test_conformance(check):
        check()

The checks are chosen by what the plugin declares about itself: its kind, the tensor orders it works on,
whether it uses a GPU, whether it computes batches. A failure says what was done, what came out and what a
right plugin does. A check that a plugin cannot pass is declared, with the reason, in its class attribute
``expected_failures``; one that passes all the same is a failure, so that the list stays true.
"""

from __future__ import annotations

from fieldbench.conformance.check import Check, CheckResult, ConformanceFailure
from fieldbench.conformance.choice import checks

__all__ = ["Check", "CheckResult", "ConformanceFailure", "checks"]
