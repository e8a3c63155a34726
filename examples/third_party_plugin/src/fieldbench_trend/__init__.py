"""Polynomial trends as a plugin of fieldbench."""

import fieldbench
from fieldbench_trend.method import Trend

__all__ = ["Trend"]


@fieldbench.hookimpl
def fieldbench_register_methods() -> list[type[fieldbench.Method]]:
    return [Trend]
