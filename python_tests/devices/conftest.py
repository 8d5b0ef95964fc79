"""Fixtures of the tests of kernels."""

import pytest
from cuda_driver import Driver


@pytest.fixture
def driver():
    """Makes the primary context current, and returns the driver."""
    driver = Driver()
    before = driver.current()
    driver.set_current(driver.context)
    yield driver
    driver.set_current(before)
