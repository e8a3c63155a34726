"""The slots of one process: which are free, and who gets the next."""

from __future__ import annotations

import threading
from collections.abc import Sequence

from fieldbench.execution.allowance import shares
from fieldbench.execution.feed import Feed, Group
from fieldbench.execution.options import Options
from fieldbench.execution.seat import Outcome, Seat
from fieldbench.execution.slots import Lane, Slot
from fieldbench.execution.stop import Stop
from fieldbench.registry import Sources

#: Seconds between looks at a wish to stop, for one who waits for a slot.
_LOOK = 0.2


class Pool:
    """Leases slots to threads. At its end no worker is left."""

    def __init__(self, slots: Sequence[Slot], sources: Sources, options: Options, stop: Stop) -> None:
        self._stop, self._closed = stop, False
        self._changed = threading.Condition()
        self._seats = [Seat(slot, sources, options, self._given_up) for slot in slots]
        # Taken from the end, so that GPUs go in their order and a worker that is warm is used before a new one.
        self._free: dict[Lane, list[Seat]] = {"gpu": [], "cpu": []}
        for seat in reversed(self._seats):
            self._free[seat.slot.lane].append(seat)
        self._busy = 0

    @property
    def sizes(self) -> dict[Lane, int]:
        """How many slots each lane has."""
        lanes = [seat.slot.lane for seat in self._seats]
        return {"gpu": lanes.count("gpu"), "cpu": lanes.count("cpu")}

    def has_nothing_for(self, feed: Feed) -> bool:
        """Whether every trial of a feed that is served here has been handed out."""
        with self._changed:
            return feed.empty

    def serve(self, feed: Feed) -> Outcome:
        """Run the next group that suits a free slot; nothing if there is none left or a stop was asked for."""
        with self._changed:
            while (leased := self._match(feed)) is None:
                if feed.empty or self._stop.asked or self._closed:
                    return Outcome(())
                self._changed.wait(_LOOK)
            seat, group = leased
            self._busy += 1
            busy = self._busy
            self._share_out(feed)
        try:
            outcome = seat.run(group.trials, busy)
        finally:
            self._release(seat)
        with self._changed:
            if outcome.batch_size is not None:
                feed.learn(group.trials[0], outcome.batch_size)
            self._share_out(feed)
        return outcome

    def run(self, group: Group) -> Outcome:
        """Run one group as soon as its lane has a free slot."""
        lane: Lane = group.lane if self.sizes[group.lane] else "cpu"
        with self._changed:
            while not self._free[lane]:
                if self._stop.asked or self._closed:
                    return Outcome(())
                self._changed.wait(_LOOK)
            seat = self._free[lane].pop()
            self._busy += 1
            busy = self._busy
        try:
            return seat.run(group.trials, busy)
        finally:
            self._release(seat)

    def close(self) -> None:
        """End all workers; who still waits for one gets nothing."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
            for seats in self._free.values():
                for seat in seats:
                    seat.close()

    def _match(self, feed: Feed) -> tuple[Seat, Group] | None:
        if self._stop.asked or self._closed:
            return None
        group = feed.take([lane for lane, seats in self._free.items() if seats])
        return None if group is None else (self._free[group.lane].pop(), group)

    def _share_out(self, feed: Feed) -> None:
        """Lend the threads of CPU slots for which there is nothing left to the trials on the others."""
        busy = [seat for seat in self._seats if seat.slot.lane == "cpu" and seat not in self._free["cpu"]]
        for seat, share in zip(busy, shares(self.sizes["cpu"], len(busy), feed.waits("cpu")), strict=True):
            seat.allow(share)

    def _release(self, seat: Seat) -> None:
        with self._changed:
            self._busy -= 1
            if self._closed:
                seat.close()
            self._free[seat.slot.lane].append(seat)
            self._changed.notify_all()

    def _given_up(self) -> bool:
        return self._closed or self._stop.now
