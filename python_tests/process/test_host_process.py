"""Calls in processes with another user, other standard files or an unusual environment.

Each case runs in a process of its own, with the machine's driver.
"""

import os
import sys

import pytest
from bindings import ROOT
from programs import library_environment, run, run_silently

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")


@needs_root
def test_the_process_may_become_another_users(placement_variables):
    """The C library makes every thread do so by a signal, which threads must not block."""
    script = """
    from host import LARGE, MIDDLING, check
    check(MIDDLING, LARGE)
    os.setuid(65534)
    check(MIDDLING, LARGE)
    """
    run_silently(script, **placement_variables)


def test_standard_files_are_closed(placement_variables):
    """Files that are opened later get these numbers: the library writes to none and closes none."""
    script = """
    from host import check_all
    for number in range(3):
        os.close(number)
    check_all()
    os._exit(0)
    """
    run_silently(script, **placement_variables)


def test_standard_files_are_other_files(placement_variables, tmp_path):
    script = f"""
    from host import check_all
    for number in range(3):
        os.close(number)
    opened = [os.open({str(tmp_path)!r} + f"/{{n}}", os.O_RDWR | os.O_CREAT) for n in range(3)]
    code = 1
    try:
        assert opened == [0, 1, 2]
        check_all()
        assert [os.fstat(number).st_size for number in opened] == [0, 0, 0]
        code = 0
    finally:
        os._exit(code)
    """
    run_silently(script, **placement_variables)


@pytest.mark.parametrize("value", [None, "", "/dev/null/home", "\n:;\\"], ids=repr)
def test_environments_of_other_kinds(value):
    """Variables that name folders are missing or wrong, with or without a driver."""
    environment = library_environment()
    for name in ("HOME", "LD_LIBRARY_PATH", "TMPDIR", "PATH", "LANG", "LC_ALL", "USER"):
        environment.pop(name, None)
        if value is not None:
            environment[name] = value
    script = "from host import check_all; check_all()"
    run([sys.executable, "-c", script], env=environment, cwd=ROOT)
