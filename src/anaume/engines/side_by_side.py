"""Work side by side: in threads, its results in order."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")


def side_by_side(work: Callable[[Item], Result], items: Iterable[Item], at_once: int) -> Iterator[Result]:
    """Yield what work makes of each item, in order; so many are at work at once, and as many again are waiting.

    What work raises is raised in its item's place, and what had not begun by then never does.
    """
    if at_once == 1:
        yield from map(work, items)
        return
    begun: deque[Future[Result]] = deque()
    with ThreadPoolExecutor(at_once) as threads:
        try:
            for item in items:
                begun.append(threads.submit(work, item))
                if len(begun) == 2 * at_once:
                    yield begun.popleft().result()
            while begun:
                yield begun.popleft().result()
        finally:
            for one in begun:
                one.cancel()
