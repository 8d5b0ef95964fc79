"""Memory of no bytes: allocated, registered and released like any other, as with malloc(0)."""

import numpy as np
import pytest
from bindings import Status, last_error, lib
from streams import ok


def register_and_end(address) -> None:
    """Registers no bytes at an address and ends that registration, once."""
    ok(lib.gpuvec_host_register(address, 0))
    ok(lib.gpuvec_host_unregister(address))
    assert lib.gpuvec_host_unregister(address) == Status.ERROR_POINTER
    assert "is not registered" in last_error()


@pytest.mark.parametrize("offset", [0, 1, 4095])
def test_an_empty_array_is_registered_and_unregistered(placement, offset):
    """A program that registers and unregisters its arrays needs no branch for empty ones."""
    owner = np.zeros(3 * 4096, np.uint8)
    register_and_end(owner.ctypes.data + -owner.ctypes.data % 4096 + offset)
    register_and_end(np.empty(0, np.float32).ctypes.data)


def test_null_is_an_empty_array(placement):
    """An empty std::vector has a NULL pointer."""
    register_and_end(None)


@pytest.mark.parametrize("empty_first", [True, False])
def test_an_empty_registration_leaves_the_others(placement, empty_first):
    """The same address may be registered with its array's length, too; each one ends once."""
    array = np.ones(100_000, np.float32)
    at = array.ctypes.data
    for bytes_ in (0, array.nbytes)[:: 1 if empty_first else -1]:
        ok(lib.gpuvec_host_register(at, bytes_))
    ok(lib.gpuvec_host_register(at + 4096, 0))
    for address in (at, at, at + 4096):
        ok(lib.vector_add(at, at, at, array.size))
        ok(lib.gpuvec_host_unregister(address))
        assert last_error() == ""
    assert lib.gpuvec_host_unregister(at) == Status.ERROR_POINTER
    assert (array == 8).all()


@pytest.mark.parametrize(
    "allocate, free",
    [
        (lib.pinned_alloc, lib.pinned_free),
        (lambda bytes_: lib.gpuvec_device_alloc(bytes_, 0), lib.gpuvec_device_free),
    ],
    ids=["pinned_alloc", "gpuvec_device_alloc"],
)
def test_allocations_of_no_bytes_are_freed_once(placement, allocate, free):
    """Each of them has an address of its own."""
    addresses = [allocate(0) for _ in range(3)]
    assert None not in addresses and len(set(addresses)) == 3
    for address in addresses:
        ok(lib.gpuvec_copy(address, address, 0, None))
        ok(free(address))
        assert free(address) == Status.ERROR_POINTER
