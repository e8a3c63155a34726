"""Regression checks: freezing a run as a small reference, and finding what has moved against one."""
