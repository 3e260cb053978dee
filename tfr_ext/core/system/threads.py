"""Runs functions in background threads, and yields the results in order."""

from __future__ import annotations

import collections
import concurrent.futures
import itertools
import os
from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

_T = TypeVar("_T")
_Result = TypeVar("_Result")

_MAX_THREADS = 4


def in_threads(
    function: Callable[[_T], _Result], items: Iterable[_T]
) -> Iterator[_Result]:
    """Yields the results of a function for items, in their order.

    The function is called in several threads at once, which only saves time if it
    leaves Python for most of its time. A few items are taken ahead, in this thread. An
    error, of the function or of the items, is raised in its turn: after the results of
    all items before it.

    Examples:
        >>> list(in_threads(len, ["a", "", "bcd"]))
        [1, 0, 3]
    """
    threads = min(_MAX_THREADS, os.cpu_count() or 1)
    with concurrent.futures.ThreadPoolExecutor(threads) as pool:

        def submitted() -> Iterator[concurrent.futures.Future[_Result]]:
            try:
                for item in items:
                    yield pool.submit(function, item)
            except Exception as error:
                failed: concurrent.futures.Future[_Result] = concurrent.futures.Future()
                failed.set_exception(error)
                yield failed

        coming = submitted()
        waiting = collections.deque(itertools.islice(coming, 2 * threads))
        try:
            while waiting:
                result = waiting.popleft().result()
                waiting.extend(itertools.islice(coming, 1))
                yield result
        finally:
            for left in waiting:
                left.cancel()


def ahead(items: Iterable[_T]) -> Iterator[_T]:
    """Yields items, while another thread takes the next one.

    Examples:
        >>> list(ahead("abc"))
        ['a', 'b', 'c']
    """
    iterator, end = iter(items), object()
    with concurrent.futures.ThreadPoolExecutor(1) as thread:
        coming = thread.submit(next, iterator, end)
        while (item := coming.result()) is not end:
            coming = thread.submit(next, iterator, end)
            yield item  # type: ignore[misc]
