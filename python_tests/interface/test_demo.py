"""The demo and the Python examples run, with each placement."""

import re
import sys

import pytest
from bindings import ROOT
from programs import library_environment, run

EXAMPLES = "device_loop streams structured mixed black_scholes signal_pipeline".split()


def test_demo(placement):
    """The demo prints a line for each operation and memory, and exits with 0."""
    environment = library_environment(GPUVEC_PLACEMENT=placement.name.lower())
    output = run([sys.executable, ROOT / "python_examples/demo.py"], env=environment)
    for operation in ("add float32", "add int32", "dot float32"):
        for memory in ("pageable", "pinned"):
            assert re.search(rf"^{operation} +{memory} .* ms", output, flags=re.MULTILINE), output


@pytest.mark.parametrize("name", EXAMPLES)
def test_example(placement, name):
    """Each example checks its own results and prints a summary."""
    environment = library_environment(GPUVEC_PLACEMENT=placement.name.lower())
    assert run([sys.executable, ROOT / f"python_examples/{name}.py"], env=environment)


def test_demo_reports_errors():
    """The demo exits with 1 and a reason if the library cannot be loaded."""
    environment = library_environment(GPUVEC_PLACEMENT="nowhere")
    script = [sys.executable, ROOT / "python_examples/demo.py"]
    with pytest.raises(AssertionError, match="GPUVEC_PLACEMENT is 'nowhere'"):
        run(script, env=environment)
