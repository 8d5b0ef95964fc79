"""gpuvec_set_device and GPUVEC_DEVICE: the GPU that works on host arrays, of several fake ones."""

import gpuvec
import pytest
from bindings import Status, last_error, lib
from on_fake_driver import needs_fake_driver, run

ALL_DEVICES = -1


def test_the_device_is_a_number_or_all():
    """Other numbers are errors, and change nothing."""
    assert lib.gpuvec_get_device() == ALL_DEVICES and gpuvec.get_device() is None
    gpuvec.set_device(0)
    for wrong in (-2, -(2**31)):
        assert lib.gpuvec_set_device(wrong) == Status.ERROR_VALUE
        assert f"device is {wrong}" in last_error()
    assert gpuvec.get_device() == 0
    gpuvec.set_device(None)
    assert lib.gpuvec_get_device() == ALL_DEVICES


@needs_fake_driver
@pytest.mark.parametrize("device", [0, 1, 2])
def test_host_arrays_are_computed_on_the_chosen_device(device):
    """Those of all kinds, also long ones, which would be shared; no other device is opened."""
    run(
        f"""
        lib.gpuvec_set_placement(Place.GPU)
        assert lib.gpuvec_get_device() == {device}
        for kind in ("pageable", "pinned"):
            assert set(backends(10, 300_001, kind=kind)) == {{Backend.GPU}}
            assert last_run().devices == 1 << {device}
            assert devices(kind) == [1 << {device}] * 2
        assert fake_driver.count("contexts") == 1
        """,
        variables={"GPUVEC_DEVICE": str(device)},
        DEVICES=3,
    )


@needs_fake_driver
def test_a_call_overrides_the_variable():
    """In all threads, as often as it is made."""
    run(
        """
        lib.gpuvec_set_placement(Place.GPU)
        for device in (0, 2, 1):
            ok(lib.gpuvec_set_device(device))
            assert Started(devices).get() == devices() == [1 << device] * 2
        ok(lib.gpuvec_set_device(-1))
        found = [bits for _ in range(5) for bits in devices()]
        assert 7 in found
        """,
        variables={"GPUVEC_DEVICE": "1"},
        DEVICES=3,
    )


@needs_fake_driver
@pytest.mark.parametrize("place", ["AUTO", "ALL"])
def test_other_placements_use_no_other_gpu(place):
    """Whatever they choose."""
    run(
        f"""
        ok(lib.gpuvec_set_device(1))
        ok(lib.gpuvec_init())
        lib.gpuvec_set_placement(Place.{place})
        for _ in range(5):
            assert set(devices()) <= {{0, 2}}
        assert fake_driver.count("contexts") == 1
        """,
        DEVICES=3,
    )


@needs_fake_driver
def test_arrays_in_device_memory_are_computed_where_they_are():
    """And functions with a device use that one."""
    run(
        """
        import gpuvec
        gpuvec.set_device(1)
        for device in (0, 1, 2):
            array = gpuvec.to_device(np.ones(1000), device)
            assert gpuvec.sum(array) == 1000 and gpuvec.last_run().devices == (device,)
            stream = gpuvec.Stream(device)
            assert (gpuvec.add(array, array, stream=stream).to_host() == 2).all()
        """,
        DEVICES=3,
    )


@needs_fake_driver
def test_a_number_that_the_driver_does_not_show():
    """Placement gpu has no GPU then, and auto uses the cores; an open driver refuses the number."""
    run(
        """
        import gpuvec
        add = lambda: gpuvec.add(np.ones(10), np.ones(10))
        text = "device 7 is chosen, and the CUDA driver shows 2 devices"
        assert text in why_cpu()
        assert (add() == 2).all() and last_run().backend == Backend.CPU
        gpuvec.set_placement("gpu")
        assert gpuvec.get_device() == 7
        try:
            add()
        except gpuvec.Error as error:
            assert text in str(error), error
        else:
            raise AssertionError
        assert lib.gpuvec_set_device(2) == Status.ERROR_VALUE and gpuvec.get_device() == 7
        gpuvec.set_device(1)
        assert (add() == 2).all() and last_run().devices == 2 and why_cpu() == ""
        """,
        variables={"GPUVEC_DEVICE": "7"},
        DEVICES=2,
    )


@needs_fake_driver
def test_a_chosen_device_that_fails_is_not_replaced():
    """Another GPU is not what the user has chosen."""
    opening = run(
        """
        ok(lib.gpuvec_set_device(1))
        assert why_cpu() == ""
        print(fake_driver.calls().index("cuDevicePrimaryCtxRetain"))
        """,
        DEVICES=3,
    )
    run(
        """
        ok(lib.gpuvec_set_device(1))
        lib.gpuvec_set_placement(Place.GPU)
        status, text = attempt(OPERATIONS[0], 1000, "pageable")
        assert status == Status.ERROR_NO_GPU and "device 1" in text, text
        ok(lib.gpuvec_init())
        assert set(backends(1000)) == {Backend.GPU} and last_run().devices == 2
        """,
        DEVICES=3,
        FAULTS=f"{int(opening) + 1}=2",
    )
