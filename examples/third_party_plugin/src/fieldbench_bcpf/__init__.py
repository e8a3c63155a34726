"""Bayesian CP factorisation as a plugin of fieldbench."""

import fieldbench
from fieldbench_bcpf.method import BCPF

__all__ = ["BCPF"]


@fieldbench.hookimpl
def fieldbench_register_methods() -> list[type[fieldbench.Method]]:
    return [BCPF]
