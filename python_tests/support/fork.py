"""Runs a function in a forked child; a failure there fails the caller."""

import multiprocessing
import os
import select
import signal
import traceback
from typing import Callable, Optional

TIMEOUT = 60


def in_child(function: Callable[[], None]) -> None:
    """Runs the function in a child of os.fork; fails if it raises, dies or does not end in time."""

    def work() -> tuple[int, str]:
        try:
            function()
            return 0, ""
        except BaseException:
            return 1, traceback.format_exc()[-4000:]

    code, text = run_in_child(work, TIMEOUT)
    assert code is not None, f"the child did not end within {TIMEOUT} s"
    assert code == 0, f"the child ended with {code}: {text}"


def run_in_child(work: Callable[[], tuple[int, str]], limit: float) -> tuple[Optional[int], str]:
    """Calls `work` in a child of os.fork; returns the child's exit code and text from `work`.

    The code is None if the child did not end within `limit` seconds, negative after a signal.
    """
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        code = 1
        try:
            code, text = work()
            os.write(writer, text.encode())
        finally:
            os._exit(code)
    os.close(writer)
    with os.fdopen(reader, "rb") as end:
        is_readable, _, _ = select.select([end], [], [], limit)
        if not is_readable:
            os.kill(child, signal.SIGKILL)
        text = end.read().decode()
    _, status = os.waitpid(child, 0)
    return os.waitstatus_to_exitcode(status) if is_readable else None, text


def in_process(function: Callable[[], None]) -> None:
    """Runs the function in a child made by multiprocessing's 'fork'."""
    process = multiprocessing.get_context("fork").Process(target=function)
    process.start()
    process.join(TIMEOUT)
    has_ended = process.exitcode is not None
    if not has_ended:
        process.kill()
        process.join()
    assert has_ended, f"the child did not end within {TIMEOUT} s"
    assert process.exitcode == 0, f"the child ended with {process.exitcode}"
