# The Python tests in three parts, for scripts that run tests side by side: most of them; those of
# whole processes, where the tests of a file run in one process, one after the other; and those that
# measure the process or the device, or need all of it, which run alone.
processes=(python_tests/process python_tests/memory/test_{pinned,device}_memory.py
    python_tests/install python_tests/release)
alone=(python_tests/devices/test_gpu_faults.py python_tests/interface/test_bench.py
    python_tests/memory/test_device_memory.py::test_rounds_leave_nothing
    python_tests/devices/test_gpu.py::test_calls_leave_no_device_memory_behind)
most=(python_tests "${processes[@]/#/--ignore=}" "${alone[@]/#/--deselect=}")
processes+=("${alone[@]/#/--deselect=}")
