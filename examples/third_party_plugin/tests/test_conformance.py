"""The checks that every fieldbench plugin must pass, and whether fieldbench finds this one."""

import pytest

from fieldbench import conformance
from fieldbench.registry import Registry
from fieldbench_bcpf import BCPF


@pytest.mark.parametrize("check", conformance.checks(BCPF), ids=str)
def test_conformance(check):
    check()


def test_fieldbench_finds_it():
    registry = Registry()
    assert registry.broken == []
    assert registry.find("method", "bcpf").cls is BCPF
