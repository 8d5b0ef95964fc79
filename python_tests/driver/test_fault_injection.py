"""Fault injection tells kept promises from broken ones."""

import subprocess
import sys
import textwrap

import pytest
from on_fake_driver import needs_fake_driver, run
from programs import SUPPORT, library_environment

pytestmark = needs_fake_driver


# Work on streams that breaks a promise, mostly when a call fails, and the expected report.
BROKEN = {
    "keeps a stream": (
        """
        try:
            super().steps(handles)
        except CallFailed:
            lib.gpuvec_stream_create(0)
            raise
        """,
        "more is held than without a fault",
    ),
    "hides an error": (
        """
        try:
            super().steps(handles)
        except CallFailed:
            pass
        """,
        "c after right",
    ),
    "goes too far": (
        """
        super().steps(handles)
        self.arrays["c"].block[0] += 1
        """,
        "something around c was written",
    ),
    "gives another error": (
        """
        try:
            super().steps(handles)
        except CallFailed as failed:
            failed.outcome = "ERROR_SIZE"
            raise
        """,
        "ERROR_SIZE: cu",
    ),
}


def inject_faults(only: str, *plan: str) -> subprocess.CompletedProcess:
    """Runs a part of fault injection."""
    command = [sys.executable, SUPPORT / "fault_injection.py", "--only", only, *plan]
    environment = library_environment()
    return subprocess.run(command, capture_output=True, text=True, timeout=120, env=environment)


@pytest.mark.long
@pytest.mark.parametrize(
    ("scenario", "plan"),
    [
        ("vector_add of 270003 pageable pageable pageable, gpu, later", "6=700+"),
        ("two streams, pinned, by synchronize, gpu, later", "6=700+"),
    ],
)
def test_fault_injection_tells_kept_promises_from_broken_ones(scenario, plan):
    """A fault that a scenario survives passes; a plan whose call is never made is a failure."""
    survived = inject_faults(scenario, "--plan", plan)
    assert survived.returncode == 0 and "1  ERROR_DEVICE_LOST" in survived.stdout, survived
    failed = inject_faults(scenario, "--plan", "1000=2")
    assert failed.returncode == 1 and "1  broken promise" in failed.stdout, failed
    assert f"--only '{scenario}' --plan 1000=2" in failed.stdout


@pytest.mark.long
@pytest.mark.parametrize("breach", BROKEN)
def test_fault_injection_reports_a_broken_promise(breach):
    """Each broken promise of work on streams is reported."""
    steps, said = BROKEN[breach]
    run(
        f"""
        from scenarios import Scenario
        from scenarios_streams import CallFailed, Chain
        from fault_injection import Options, inject_faults

        class Broken(Chain):
            def steps(self, handles):
{textwrap.indent(textwrap.dedent(steps), " " * 16)}

        def failures(work):
            scenario = Scenario(work(("device",)), Place.GPU, 1)
            return inject_faults(scenario, Options("", 25, None))[1]

        assert failures(Chain) == []
        assert any({said!r} in text for text, _, _ in failures(Broken)), failures(Broken)
        """
    )
