"""The fake driver of `make fake-driver`: its controls, and plans of its faults."""

import ctypes
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import Optional

import numpy as np
from bindings import ROOT, Status

FAKE_DRIVER_FOLDER = ROOT / "target/fake_driver"

# The status that a caller may get for each driver code; ERROR_NO_GPU is allowed for all of them.
CODES = {
    2: Status.ERROR_OUT_OF_MEMORY,
    801: Status.ERROR_DRIVER,
    3: Status.ERROR_DRIVER,
    201: Status.ERROR_DRIVER,
    999: Status.ERROR_DEVICE_LOST,
    700: Status.ERROR_DEVICE_LOST,
    719: Status.ERROR_DEVICE_LOST,
}


class FakeDriver:
    """The fake driver's controls."""

    HOLDINGS = (
        "device_bytes",
        "device_allocations",
        "host_bytes",
        "host_allocations",
        "registered_bytes",
        "registered",
    )
    HANDLES = ("streams", "events", "modules", "contexts")

    @cached_property
    def driver(self) -> ctypes.CDLL:
        """The driver, loaded on first use."""
        driver = ctypes.CDLL("libcuda.so.1")
        driver.fake_driver_calls.restype = ctypes.c_uint64
        driver.fake_driver_call_name.restype = ctypes.c_char_p
        driver.fake_driver_call_name.argtypes = [ctypes.c_uint64]
        driver.fake_driver_count.restype = ctypes.c_int64
        driver.fake_driver_violation.restype = ctypes.c_char_p
        driver.fake_driver_bytes.restype = ctypes.c_void_p
        driver.fake_driver_bytes.argtypes = [ctypes.c_uint64]
        for capture in (driver.fake_driver_begin_capture, driver.fake_driver_end_capture):
            capture.argtypes = [ctypes.c_uint64]
        driver.fake_driver_end_capture.restype = ctypes.c_bool
        return driver

    def plan(self, text: str) -> None:
        """Sets a plan of faults and counts calls from 1 again."""
        self.driver.fake_driver_faults(text.encode())

    def plan_random(self, seed: int, per_10000: int, codes: Iterable[int]) -> None:
        """Lets each call fail with a probability from now on, with one of the codes."""
        self.plan(f"random:{seed}:{per_10000}:{'/'.join(map(str, codes))}")

    def calls(self) -> list[str]:
        """Returns the calls since the plan was set."""
        numbers = range(1, self.driver.fake_driver_calls() + 1)
        return [self.driver.fake_driver_call_name(number).decode() for number in numbers]

    def count(self, what: str) -> int:
        """Counts the live objects of a kind that the driver hands out."""
        return self.driver.fake_driver_count(what.encode())

    def ledger(self) -> dict[str, int]:
        """Counts the live objects of every kind."""
        return {what: self.count(what) for what in self.HOLDINGS + self.HANDLES}

    def violation(self) -> str:
        """Returns the first violation; empty if there was none."""
        return self.driver.fake_driver_violation().decode()

    def context(self) -> Optional[int]:
        """Returns the thread's current context."""
        context = ctypes.c_void_p()
        self.driver.cuCtxGetCurrent(ctypes.byref(context))
        return context.value

    def hold_context(self, device: int = 0) -> None:
        """Makes a device's primary context current, as a program that uses CUDA does."""
        context = ctypes.c_void_p()
        assert self.driver.cuInit(0) == 0
        assert self.driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), device) == 0
        assert self.driver.cuCtxSetCurrent(context) == 0

    def memory(self, kind: str, size: int) -> tuple[int, np.ndarray]:
        """Allocates device or managed memory in the current context: its address, and its bytes."""
        address = ctypes.c_uint64()
        if kind == "managed":
            code = self.driver.cuMemAllocManaged(ctypes.byref(address), ctypes.c_size_t(size), 1)
        else:
            code = self.driver.cuMemAlloc_v2(ctypes.byref(address), ctypes.c_size_t(size))
        assert code == 0, f"the fake driver has no {size} bytes: {code}"
        at = self.driver.fake_driver_bytes(address.value)
        return address.value, np.ctypeslib.as_array((ctypes.c_uint8 * size).from_address(at))

    @contextmanager
    def held(self) -> Iterator[None]:
        """Keeps all streams from working during the block, which must not wait for a stream."""
        self.driver.fake_driver_hold(True)
        try:
            yield
        finally:
            self.driver.fake_driver_hold(False)

    @contextmanager
    def call_held(self, name: str) -> Iterator[None]:
        """Holds all calls of a name inside the driver during the block; other calls go on."""
        self.driver.fake_driver_hold_call(name.encode())
        try:
            yield
        finally:
            self.driver.fake_driver_release_call()

    def wait_for_held_calls(self, count: int = 1) -> None:
        """Returns when `count` calls are held. The child's time limit bounds it."""
        while self.count("held_calls") < count:
            os.sched_yield()

    def hold_no_more_calls(self) -> None:
        """Lets later calls pass in a block of `call_held`; calls that are held remain so."""
        self.driver.fake_driver_hold_call(b"")

    @contextmanager
    def captured(self, stream: int) -> Iterator[None]:
        """Makes the driver report during the block that a stream is being captured.

        Fails if a query or a wait of the block invalidates the capture.
        """
        self.driver.fake_driver_begin_capture(stream)
        try:
            yield
        finally:
            is_valid = self.driver.fake_driver_end_capture(stream)
        assert is_valid, "the capture was invalidated"

    def drain(self) -> None:
        """Returns when no queued work is left. The child's time limit bounds it."""
        while self.count("pending"):
            os.sched_yield()


@dataclass(frozen=True)
class Fault:
    """One entry of a plan: a call's number, a code, and "" (once), "+" (always) or "~" (late)."""

    number: int
    code: int
    manner: str

    def __str__(self) -> str:
        """Returns the plan."""
        return f"{self.number}={self.code}{self.manner}"

    @classmethod
    def parse(cls, plan: str) -> "Fault":
        """Parses a plan of one entry."""
        number, rest = plan.split("=")
        return cls(int(number), int(rest.rstrip("+~")), rest.lstrip("0123456789"))

    def failed(self, calls: list[str]) -> list[str]:
        """Returns the calls that failed under the plan."""
        return [] if self.manner == "~" else calls[self.number - 1 :][: None if self.on else 1]

    @property
    def on(self) -> bool:
        """Returns whether all later calls fail as well."""
        return self.manner == "+"

    @property
    def loses_device(self) -> bool:
        """Returns whether gpuvec may treat the device as lost."""
        return CODES[self.code] == Status.ERROR_DEVICE_LOST
