"""Runs a function in a forked child; a failure there fails the caller."""

import multiprocessing
import os
import select
import signal
import traceback
from typing import Callable

TIMEOUT = 60


def in_child(function: Callable[[], None]) -> None:
    """Runs the function in a child of os.fork; fails if it raises, dies or does not end in time."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        code = 1
        try:
            function()
            code = 0
        except BaseException:
            os.write(writer, traceback.format_exc().encode()[-4000:])
        finally:
            os._exit(code)
    os.close(writer)
    with os.fdopen(reader, "rb") as end:
        ended, _, _ = select.select([end], [], [], TIMEOUT)
        if not ended:
            os.kill(child, signal.SIGKILL)
        text = end.read().decode()
    _, status = os.waitpid(child, 0)
    assert ended, f"the child did not end within {TIMEOUT} s"
    assert status == 0, f"the child ended with {status}: {text}"


def in_process(function: Callable[[], None]) -> None:
    """Runs the function in a child made by multiprocessing's 'fork'."""
    process = multiprocessing.get_context("fork").Process(target=function)
    process.start()
    process.join(TIMEOUT)
    ended = process.exitcode is not None
    if not ended:
        process.kill()
        process.join()
    assert ended, f"the child did not end within {TIMEOUT} s"
    assert process.exitcode == 0, f"the child ended with {process.exitcode}"
