"""Arrays of libraries that export them through DLPack's C interface for exchange."""

import gc

import gpuvec
import numpy as np
import pytest
from c_exchange import library, read_only_ones
from gpuvec._library import native
from on_fake_driver import needs_fake_driver, run

pytestmark = [
    pytest.mark.wheel,
    pytest.mark.skipif(native is None, reason="the extension module calls the interface"),
]


def test_inputs_and_outputs(placement):
    """Are exported by the class's functions, and freed when the call is over."""
    make = library()
    a, out = make(np.arange(6, dtype=np.float32).reshape(2, 3)), make(np.zeros((2, 3), np.float32))
    assert gpuvec.add(a, a, out=out) is out
    assert (out.array == 2 * a.array).all()
    assert gpuvec.evaluate("a*2 + 1", a=a, out=out) is out
    assert (out.array == 2 * a.array + 1).all()
    assert gpuvec.sum(make(np.arange(6.0)[::2])) == 6
    assert set(a.exports) == set(out.exports) == {"quick"}
    gc.collect()
    assert a.alive == out.alive == 0


def test_a_device_array_keeps_the_export():
    """The exporter's tensor lives as long as the DeviceArray on it."""
    theirs = library()(np.arange(4.0))
    shared = gpuvec.from_dlpack(theirs)
    assert theirs.alive == 1 and (shared.to_host() == theirs.array).all()
    del shared
    gc.collect()
    assert theirs.alive == 0


def test_a_read_only_array_is_no_output():
    """The flag of the exported tensor says so."""
    array = read_only_ones()
    theirs = library()(array)
    assert gpuvec.sum(theirs) == 3
    with pytest.raises(ValueError, match="out is read-only"):
        gpuvec.add(np.ones(3), np.ones(3), out=theirs)
    assert (array == 1).all()


@pytest.mark.parametrize(
    "how", [{"major": 2}, {"is_failing": True}], ids=["another version", "a refusal"]
)
def test_dunder_dlpack_is_called_otherwise(how):
    """It exports the array, or tells why it does not."""
    theirs = library(**how)(np.ones(3))
    assert gpuvec.sum(theirs) == 3
    assert theirs.exports[-1][0] == "slow" and "quick" not in theirs.exports


def test_a_tensor_with_a_gradient_is_refused_by_its_library():
    """The functions of PyTorch's class export it; its ``__dlpack__`` does not."""
    theirs = library()(np.ones(3))
    theirs.requires_grad = True
    assert gpuvec.sum(theirs) == 3
    assert set(theirs.exports) == {("slow", None)}


def test_another_device_is_refused():
    """The memory of an AMD GPU, for example, is not read."""

    class Elsewhere(library(kind=10)):
        def __dlpack_device__(self):
            """Return ROCm's first device."""
            return (10, 0)

    with pytest.raises(TypeError, match="a is on ROCm"):
        gpuvec.sum(Elsewhere(np.ones(3)))


SCRIPT = """
import gpuvec
from c_exchange import library, read_only_ones

gpuvec.set_placement("gpu")
values = np.arange(10, dtype=np.float32)
legacy, other = library(stream={legacy}), library(stream={other})
for make in (legacy, other):
    a, out = make(gpuvec.to_device(values)), make(gpuvec.DeviceArray(10))
    gpuvec.add(a, a, out=out)
    assert gpuvec.last_run().path == ("resident",)
    assert (out.array.to_host() == 2 * values).all()
    assert isinstance(gpuvec.add(a, a), gpuvec.DeviceArray)
    for array in (a, out):
        assert (("slow", 1) in array.exports) == (make is other), array.exports
"""


@needs_fake_driver
@pytest.mark.parametrize("legacy", [0, 1])
def test_the_order_of_work_on_other_streams(legacy):
    """Work on the legacy default stream comes first by itself; ``__dlpack__`` orders other work."""
    run(SCRIPT.format(legacy=legacy, other=77))


@needs_fake_driver
def test_a_call_on_the_stream_of_the_work():
    """Needs no order beyond the stream's own."""
    run("""
import gpuvec
from c_exchange import library, read_only_ones

native = c_void_p()
fake_driver.hold_context()
fake_driver.driver.cuStreamCreateWithPriority(byref(native), 1, 0)
make = library(stream=native.value)
gpuvec.set_placement("gpu")
a = make(gpuvec.to_device(np.ones(10, np.float32)))
stream = gpuvec.Stream.from_native(native.value)
result = gpuvec.add(a, a, stream=stream)
assert set(a.exports) == {"quick"}
assert (result.to_host() == 2).all()
gpuvec.add(a, a)
assert a.exports[-1] == ("slow", 1)
""")


@pytest.mark.parametrize("name", ["bool", "uint8", "int32", "int64", "float32", "float64"])
def test_evaluate_knows_the_types(placement, name):
    """The formula is compiled for the type that the library exports."""
    theirs = library()(np.array([0, 1, 1, 0, 1], name))
    assert gpuvec.evaluate("count(x != 0)", x=theirs) == 3
    assert set(theirs.exports) == {"quick"}
