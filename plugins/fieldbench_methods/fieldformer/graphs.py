"""A training step as a CUDA graph: its hundred kernels start with one call, and the host waits for none of them."""

from __future__ import annotations

from collections.abc import Callable

import torch

_WARM = 3
"""Steps before the recording, in which libraries choose their algorithms and take their workspace."""


def recorded(update: Callable[[], None], start_over: Callable[[], None], device: str) -> Callable[[], None]:
    """A function that does what ``update`` does, without asking Python again.

    Args:
        update: changes tensors on the device in place; what it reads must stay where it is.
        start_over: undoes all that calls of ``update`` have changed.
        device: a CUDA device.
    """
    with torch.cuda.device(device):
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            for _ in range(_WARM):
                update()
                start_over()
        torch.cuda.current_stream().wait_stream(stream)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            update()
    replay: Callable[[], None] = graph.replay
    return replay
