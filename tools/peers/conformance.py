"""A plugin of pytest: selects the array API standard's tests, and fixes their examples."""

import re
from typing import Any

import pytest
from gpuvec_array_api import COMPUTED
from hypothesis import HealthCheck, Phase, settings


@pytest.hookimpl(trylast=True)
def pytest_configure() -> None:
    """Fixes the examples, on top of the settings that the suite has made."""
    repeatable = settings(
        derandomize=True,
        deadline=None,
        report_multiple_bugs=False,
        phases=set(Phase) - {Phase.explain},
        suppress_health_check=[HealthCheck.too_slow],
    )
    settings.register_profile("repeatable", repeatable)
    settings.load_profile("repeatable")


def pytest_collection_modifyitems(items: list[Any]) -> None:
    """Leaves out the tests of NumPy's functions and of its arrays' operators."""
    items[:] = [item for item in items if function_of(item.name) in COMPUTED]


def function_of(test: str) -> str:
    """Returns the name of the function or method that a test tests: its parameter, or its own."""
    name, *parameters = re.findall(r"\w+", test)
    return parameters[0] if parameters else re.sub("^test_|_with_scalars$", "", name)
