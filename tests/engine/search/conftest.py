"""Fixtures of the search tests."""

from tests.support.calibrations import quick_calibration
