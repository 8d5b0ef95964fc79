"""numexpr's threads, which gpuvec does not have."""

from typing import Any

from . import refuse


def detect_number_of_cores(*_: Any) -> Any:
    """Refuses."""
    return refuse("numexpr's variables of the environment")


set_vml_num_threads = get_vml_num_threads = detect_number_of_cores
