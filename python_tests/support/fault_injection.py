"""Makes each call of the driver fail in turn, in every scenario, and checks the outcome.

    python_tests/support/fault_injection.py [--shallow SEED PERCENT] [--only TEXT ...] [--plan PLAN]

Runs on the fake driver. A clean run of a scenario lists the driver calls that it makes. Then each
of them fails with each of CODES, once and from then on, and queued work fails later, each fault in
a child of its own. Under any fault the result has the right bits, or an error explains the failure;
nothing else is changed, nothing leaks, and the next call works. A scenario of several calls stops
at the first failure, and is right if all calls succeed. A scenario makes the same driver calls in
every run, because the library has one thread and no completion flags, unless placement auto takes
other processors than in the clean run, by what earlier calls took. So that all runs hold the same
in the end, its last calls are one with placement gpu and one with auto.
"""

import argparse
import json
import multiprocessing
import os
import random
import re
import sys
import time
import traceback
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Callable, Optional

from bindings import Backend, Place, Status, last_error, last_run, lib, why_cpu
from fake_driver import CODES, FAKE_DRIVER_FOLDER, FakeDriver, Fault
from fork import run_in_child
from programs import before, library_environment
from progress import progress
from scenarios import Scenario, scenarios
from work import NULL, RIGHT, Work, outcome_of

TIME_LIMIT = 100

QUEUEING = ("cuLaunchKernel", "cuMemcpyAsync", "cuMemcpyHtoDAsync_v2", "cuMemcpyDtoHAsync_v2")
LATER = 700
NOT_INITIALIZED = 3
# Called for each kernel in turn: the first and the last call of such a sequence stand for all.
CALLED_IN_SEQUENCE = "cuModuleGetFunction"

BROKEN = "broken promise"
OUTCOMES = [RIGHT, NULL, *[status.name for status in Status][1:], BROKEN]
FIRST_EXIT_CODE = 10


def faults_of(calls: list[str], codes: tuple[int, ...]) -> Iterator[Fault]:
    """Yields all faults of a run of these calls."""
    for number, name in enumerate(calls, 1):
        if calls[number - 2 : number + 1] == [CALLED_IN_SEQUENCE] * 3:
            continue
        # Asked first, this call tells whether another library has initialised the driver. A driver
        # that denies this hides the device memory of that library.
        is_denial = number == 1 and name == "cuCtxGetCurrent"
        for code in codes:
            if is_denial and code == NOT_INITIALIZED:
                continue
            yield Fault(number, code, "")
            yield Fault(number, code, "+")
        if name in QUEUEING:
            yield Fault(number, LATER, "~")


def begin(driver: FakeDriver, scenario: Scenario) -> None:
    """Prepares the scenario without faults, up to the call in question."""
    os.environ["FAKE_DRIVER_DEVICES"] = str(scenario.work.devices)
    os.environ["FAKE_DRIVER_FLAGS"] = "0"
    os.environ["GPUVEC_NUM_THREADS"] = "1"
    lib.gpuvec_set_placement(scenario.place)
    scenario.work.in_child()
    for _ in range(scenario.earlier):
        round_outcome(scenario.work)
        scenario.work.reset()
        driver.hold_context()
    driver.plan("")


def round_outcome(work: Work) -> str:
    """Makes one attempt without faults, from the beginning, and returns its checked outcome."""
    work.reset()
    outcome = work.attempt()
    work.check(outcome, [])
    return outcome


def use_gpu(scenario: Scenario) -> None:
    """Makes the library hold what the work needs on the GPU, where placement auto chooses."""
    if scenario.place == Place.AUTO:
        lib.gpuvec_set_placement(Place.GPU)
        round_outcome(scenario.work)
        lib.gpuvec_set_placement(Place.AUTO)


def clean_run(scenario: Scenario) -> str:
    """Returns the driver calls of the scenario and the objects held in the end, as JSON."""
    driver, work = FakeDriver(), scenario.work
    begin(driver, scenario)
    assert work.attempt() == RIGHT, work.text() or why_cpu()
    work.check(RIGHT, [])
    calls = driver.calls()
    assert round_outcome(work) == RIGHT, work.text()
    use_gpu(scenario)
    assert round_outcome(work) == RIGHT, work.text()
    return json.dumps([calls, driver.ledger()])


def faulty_run(scenario: Scenario, held: dict[str, int], fault: Fault) -> str:
    """Returns the outcome with a fault; fails unless all promises hold, then and afterwards."""
    driver, work = FakeDriver(), scenario.work
    begin(driver, scenario)
    context = driver.context()
    driver.plan(str(fault))
    outcome = work.attempt()
    text = work.text()
    pending = driver.count("pending")
    calls = driver.calls()
    driver.plan("")
    check_outcome(scenario, fault, outcome, text, calls)
    failed = fault.failed(calls)
    # The two ways back to the caller's context.
    ways = {"cuCtxPopCurrent_v2", "cuCtxSetCurrent"}
    is_put_back = ways <= set(failed) or driver.context() == context
    assert is_put_back, "another context is current"
    given_up = fault.on and "cuStreamSynchronize" in failed
    may_be_pending = given_up or (work.queues and outcome != RIGHT)
    assert may_be_pending or not pending, f"{pending} queued commands are left"
    driver.drain()
    work.check(outcome, calls)
    check_afterwards(driver, scenario, fault, outcome, failed)
    if not fault.loses_device and not work.may_leave(set(failed)):
        check_ledger(driver, held)
    assert not driver.violation(), driver.violation()
    return outcome


def check_outcome(
    scenario: Scenario, fault: Fault, outcome: str, text: str, calls: list[str]
) -> None:
    """Fails unless the fault explains the outcome and the last error fits it."""
    may_differ = scenario.place == Place.AUTO and scenario.earlier
    assert len(calls) >= fault.number or may_differ, f"only {len(calls)} calls were made"
    explained = [RIGHT, NULL, Status.ERROR_NO_GPU.name, CODES[fault.code].name]
    assert outcome in explained, f"{outcome}: {text}"
    assert bool(text) == (outcome != RIGHT), f"{outcome} with the text '{text}'"
    assert "SUCCESS" not in text, text
    if scenario.place == Place.GPU and scenario.work.needs_gpu and outcome == RIGHT:
        assert last_run().backend != Backend.CPU, "the CPU did what was the GPU's"
    must_answer = scenario.place == Place.AUTO and scenario.work.always_answers
    if must_answer and not scenario.work.is_half_done(calls):
        assert outcome == RIGHT, f"auto gave {outcome}: {text}"


def check_afterwards(
    driver: FakeDriver, scenario: Scenario, fault: Fault, first: str, failed: list[str]
) -> None:
    """Fails unless later calls without faults work, if the device does, and leak nothing."""
    lost = fault.loses_device and (scenario.place == Place.GPU or not scenario.work.always_answers)
    gone = [Status.ERROR_NO_GPU.name, Status.ERROR_DEVICE_LOST.name, NULL] if lost else []
    # A device that did not open is not tried again before gpuvec_init.
    is_closed = first != RIGHT and not scenario.earlier
    closed = [Status.ERROR_NO_GPU.name, NULL] if is_closed else []
    outcome = round_outcome(scenario.work)
    said = scenario.work.text()
    assert outcome in [RIGHT, *closed, *gone], f"the next call gave {outcome}: {said}"
    # A query about an address does not belong to one device.
    is_lost = first == Status.ERROR_DEVICE_LOST.name and "cuPointerGetAttributes" not in failed
    if is_lost and scenario.place == Place.GPU:
        assert outcome != RIGHT, "the next call worked on a device that was lost"
    if outcome != RIGHT:
        assert outcome_of(lib.gpuvec_init()) in [RIGHT, *gone], f"gpuvec_init: {last_error()}"
        outcome = round_outcome(scenario.work)
        said = scenario.work.text()
        assert outcome in [RIGHT, *gone], f"after gpuvec_init: {outcome}: {said}"
    use_gpu(scenario)
    held = driver.ledger()
    round_outcome(scenario.work)
    changed = {what: now - held[what] for what, now in driver.ledger().items() if now != held[what]}
    assert not changed, f"one more call, and the ledger changed by {changed}"
    assert driver.count("pending") == 0


def check_ledger(driver: FakeDriver, held: dict[str, int]) -> None:
    """Fails if more is held than without faults, except for kernels without use."""
    more = {what: now - held[what] for what, now in driver.ledger().items() if now > held[what]}
    more.pop("modules", None)
    assert not more, f"more is held than without a fault: {more}"


def in_child(function: Callable[[], str]) -> tuple[str, str]:
    """Runs a function in a forked child and returns its outcome and its text."""

    def work() -> tuple[int, str]:
        try:
            text = function()
            outcome = text if text in OUTCOMES else RIGHT
        except BaseException as error:
            has_text = isinstance(error, AssertionError) and str(error)
            outcome, text = BROKEN, str(error) if has_text else traceback.format_exc()
        return FIRST_EXIT_CODE + OUTCOMES.index(outcome), text

    code, text = run_in_child(work, TIME_LIMIT)
    if code is None:
        return BROKEN, f"it did not end within {TIME_LIMIT} s"
    if code < FIRST_EXIT_CODE:
        return BROKEN, f"the process ended with {code}"
    return OUTCOMES[code - FIRST_EXIT_CODE], text


@dataclass(frozen=True)
class Options:
    """The selection of faults to try."""

    seed: str
    percent: float
    plan: Optional[str]

    def faults(self, scenario: Scenario, calls: list[str]) -> list[Fault]:
        """Returns the chosen faults of a scenario."""
        if self.plan:
            return [Fault.parse(self.plan)]
        rng = random.Random(f"{self.seed} {scenario}")
        faults = faults_of(calls, scenario.work.codes)
        return [fault for fault in faults if rng.random() * 100 < self.percent]


# An error text, a scenario's name and a plan; the plan is empty if the clean run failed.
Failure = tuple[str, str, str]
# The number of failures with the same text to print.
SHOWN = 5


def inject_faults(scenario: Scenario, options: Options) -> tuple[Counter, list[Failure]]:
    """Tries all chosen faults of a scenario; returns each outcome's count, and the failures."""
    scenario.work.in_parent()
    outcome, text = in_child(partial(clean_run, scenario))
    if outcome == BROKEN:
        return Counter(), [(text, str(scenario), "")]
    calls, held = json.loads(text)
    outcomes, failures = Counter(), []
    for fault in options.faults(scenario, calls):
        outcome, text = in_child(partial(faulty_run, scenario, held, fault))
        outcomes[outcome] += 1
        if outcome == BROKEN:
            failures.append((text, str(scenario), str(fault)))
    return outcomes, failures


def report(outcomes: Counter, failures: list[Failure]) -> None:
    """Prints the count of each outcome, and the failures grouped by text."""
    for outcome, count in outcomes.most_common():
        print(f"{count:9,}  {outcome}")
    alike = defaultdict(list)
    for text, scenario, plan in failures:
        place = f"    --only '{scenario}'" + (f" --plan {plan}" if plan else " without a fault")
        alike[re.sub("[0-9]+", "#", text)].append((text, place))
    for places in sorted(alike.values(), key=len, reverse=True):
        print(f"\n{len(places):,} like this: {places[0][0]}")
        print(*[place for _, place in places[:SHOWN]], sep="\n")


def main() -> int:
    """Injects all chosen faults; returns 1 if a promise was broken."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--shallow", nargs=2, metavar=("SEED", "PERCENT"), default=("", "100"))
    parser.add_argument("--only", nargs="+", default=[""], help="scenarios with any of these in it")
    parser.add_argument("--plan", help="this plan alone, as it is printed for a failure")
    given = parser.parse_args()
    options = Options(given.shallow[0], float(given.shallow[1]), given.plan)
    chosen = [
        scenario for scenario in scenarios() if any(text in str(scenario) for text in given.only)
    ]
    outcomes, failures, start = Counter(), [], time.monotonic()
    with multiprocessing.get_context("fork").Pool(os.cpu_count()) as pool:
        found = pool.imap_unordered(partial(inject_faults, options=options), chosen)
        for more, failed in progress(found, "scenarios", total=len(chosen)):
            outcomes.update(more)
            failures += failed
    seconds = time.monotonic() - start
    print(f"{len(chosen):,} scenarios, {sum(outcomes.values()):,} faults in {seconds:.0f} s")
    report(outcomes, failures)
    return 1 if failures or not outcomes else 0


def uses_fake_driver() -> bool:
    """Returns whether this process finds the fake driver when it looks for the driver."""
    return os.environ.get("LD_LIBRARY_PATH", "").startswith(str(FAKE_DRIVER_FOLDER))


if __name__ == "__main__":
    if not (FAKE_DRIVER_FOLDER / "libcuda.so.1").exists():
        sys.exit("the fake driver is not built: make fake-driver")
    if not uses_fake_driver():
        variables = library_environment(
            LD_LIBRARY_PATH=before("LD_LIBRARY_PATH", FAKE_DRIVER_FOLDER)
        )
        os.execve(sys.executable, [sys.executable, *sys.argv], variables)
    sys.exit(main())
