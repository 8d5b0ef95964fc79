"""Random calls on arrays of any shapes and strides, beside NumPy: `make random-arrays` in short."""

import numpy as np
import pytest
from bindings import Place
from random_arrays import Call, case, check, report

COUNT = 400
# A GPU's driver takes some 10 ms to compile each text.
COUNT_ON_GPU = 100


@pytest.mark.skipif(
    np.lib.NumpyVersion(np.__version__) < "2.1.0", reason="floor made floats of integers"
)
def test_random_calls(placement):
    """Formulas and reductions, on every placement."""
    count = COUNT_ON_GPU if placement == Place.GPU else COUNT
    wrong = [text for text in (report(11, number) for number in range(count)) if text]
    assert not wrong, "\n\n".join(wrong)


def test_every_outcome_is_among_the_calls(on_cpu):
    """Results in new arrays and in place, and refused overlaps."""
    outcomes = {check(case(11, number), 11, number)[0] for number in range(300)}
    assert outcomes >= {"equal", "in place", "overlap", "refused"}


def test_wrong_results_are_found(monkeypatch, on_cpu):
    """All but those of calls that have no result to change, or only infinities and NaN."""
    right = Call.run

    def change(result):
        return ~result if result.dtype == bool else result + 1

    numbers = [number for number in range(60) if check(case(11, number), 11, number)[0] == "equal"]
    monkeypatch.setattr(Call, "run", lambda call: list(map(change, right(call))))
    found = [check(case(11, number), 11, number)[0] for number in numbers]
    assert found.count("wrong") > len(numbers) / 2 > 10


def test_a_changed_element_beside_an_input_is_found(monkeypatch, on_cpu):
    """One behind the last element of the array that the input is a part of."""
    right = Call.run

    def run_and_write(call):
        results = right(call)
        call.parts[0].parent.view(np.uint8)[-1] ^= 1
        return results

    number = next(
        number for number in range(60) if check(case(11, number), 11, number)[0] == "equal"
    )
    monkeypatch.setattr(Call, "run", run_and_write)
    outcome, message = check(case(11, number), 11, number)
    assert outcome == "wrong" and "written" in message
