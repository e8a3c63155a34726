"""Weights of the autoencoder in files: safetensors, or the file that the methods' authors released."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import TYPE_CHECKING

from fieldbench import RequestError

if TYPE_CHECKING:
    from torch import Tensor

    from fieldbench_methods.cartography.autoencoder import Autoencoder

#: The prior that comes with fieldbench.
SHIPPED = Path(__file__).with_name("prior.safetensors")


def load(file: Path) -> Autoencoder:
    """A network with the weights of a file, ready to be used: eval mode, gradients off, single precision.

    Nothing in the file is executed: a safetensors file holds arrays alone, and any other is read by torch's
    ``weights_only`` loader.

    Args:
        file: a safetensors file written by ``fieldbench train-prior``, such as :data:`SHIPPED`, or the
            released Deep-SC weights (``slf_network.pt``).

    Raises:
        RequestError: if the file cannot be read (a folder), is neither of the two, or holds another network.
    """
    import torch

    from fieldbench_methods.cartography.autoencoder import Autoencoder

    try:
        state = _read_safetensors(file) if file.suffix == ".safetensors" else _read_released(file)
    except OSError as error:
        raise RequestError(f"weights {str(file)!r} cannot be read: {error.strerror or error}; give a file") from None
    with torch.random.fork_rng(devices=[]):  # the weights it starts from are replaced; nobody's randomness is used up
        network = Autoencoder()
    wanted = network.state_dict()
    missing = [key for key in wanted if not key.endswith("num_batches_tracked") and key not in state]
    unequal = [key for key in state if key not in wanted or state[key].shape != wanted[key].shape]
    if missing or unequal:
        name = (missing or unequal)[0]
        raise RequestError(f"weights {str(file)!r}: {name} does not fit; give the weights of this autoencoder")
    network.load_state_dict({key: value.float() for key, value in state.items()}, strict=False)
    return network.eval().requires_grad_(False)


def save(network: Autoencoder, path: Path) -> None:
    """Write the weights as safetensors, whole or not at all.

    Convolution kernels are stored in half precision, everything else (batch norm, biases) in single.
    """
    from safetensors.torch import save as serialised

    state = {
        key: (value.half() if value.ndim > 1 else value.float()).detach().cpu().contiguous()
        for key, value in network.state_dict().items()
        if not key.endswith("num_batches_tracked")
    }
    partial = path.with_name(path.name + ".partial")
    partial.write_bytes(serialised(state))
    partial.replace(path)


def sha256(path: Path) -> str:
    """The hash that the card of a weights file states."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _read_safetensors(file: Path) -> dict[str, Tensor]:
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    try:
        state: dict[str, Tensor] = load_file(file)
    except SafetensorError as error:
        raise RequestError(f"weights {str(file)!r} are not a safetensors file: {error}") from None
    return state


def _read_released(file: Path) -> dict[str, Tensor]:
    """The layout of the released file: the same layers in the same order, as ``encoder.main.0.weight``."""
    import pickle

    import torch

    try:
        content = torch.load(file, weights_only=True, map_location="cpu")
        state = content["model_state_dict"]
        return {key.replace(".main.", "."): value for key, value in state.items()}
    except (pickle.UnpicklingError, RuntimeError, EOFError, KeyError, TypeError, AttributeError):
        message = "holds no weights that can be loaded safely; give a safetensors file or Deep-SC's slf_network.pt"
        raise RequestError(f"weights {str(file)!r}: the file {message}") from None
