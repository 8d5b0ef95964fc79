"""numexpr's threads, which gpuvec does not have."""

from typing import Any

from . import refuse


def detect_number_of_cores() -> Any:
    """Refuses."""
    return refuse("numexpr's variables of the environment")


def set_vml_num_threads(_: int) -> Any:
    """Refuses."""
    return refuse("numexpr's variables of the environment")


get_vml_num_threads = detect_number_of_cores
