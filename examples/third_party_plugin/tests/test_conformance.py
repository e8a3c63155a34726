"""The checks that every fieldbench plugin must pass, and whether fieldbench finds this one."""

import pytest

from fieldbench import conformance
from fieldbench.registry import Registry
from fieldbench_trend import Trend


@pytest.mark.parametrize("check", conformance.checks(Trend), ids=str)
def test_conformance(check):
    check()


def test_fieldbench_finds_it():
    registry = Registry()
    assert registry.broken == []
    assert registry.find("method", "trend").cls is Trend
