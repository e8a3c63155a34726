"""How many CPU threads a trial may use: those of idle slots too, once nothing waits for them."""

from __future__ import annotations


def shares(slots: int, busy: int, more_waits: bool) -> list[int]:
    """For each busy one of some slots, how many slots' threads it may use.

    Args:
        slots: worker slots of the machine.
        busy: how many of them run a trial.
        more_waits: whether trials wait for a slot; then each keeps to its own, as an idle one is about to be taken.
    """
    if more_waits or not busy:
        return [1] * busy
    each, over = divmod(slots, busy)
    return [each + (number < over) for number in range(busy)]
