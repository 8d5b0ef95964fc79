"""Runs functions in several threads concurrently."""

import threading
from concurrent.futures import ThreadPoolExecutor

THREADS = 16


def in_threads(function, threads: int = THREADS) -> None:
    """Runs function(0), function(1), … concurrently; fails if one fails."""
    start = threading.Barrier(threads, timeout=60)

    def run(number):
        start.wait()
        function(number)

    with ThreadPoolExecutor(threads) as pool:
        for future in [pool.submit(run, number) for number in range(threads)]:
            future.result()
