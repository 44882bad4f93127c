"""What a run does to the process it runs in: its threads and generators, and the signals that ask it to stop."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch

from anaume.engines import kept_memory
from anaume.training.sections import LoopSettings


@contextmanager
def computing(settings: LoopSettings, device: torch.device) -> Iterator[None]:
    """Compute with the run's threads, and leave threads and generators of the process as they were."""
    threads = torch.get_num_threads()
    assert settings.run.threads is not None
    torch.set_num_threads(settings.run.threads)
    try:
        with kept_memory(), torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
            yield
    finally:
        torch.set_num_threads(threads)


@contextmanager
def stop_signals() -> Iterator[Callable[[], bool]]:
    """Turn Ctrl-C and SIGTERM into a question the loop asks between steps; a second one ends at once.

    A signal that is ignored (nohup, a script's "&") stays so.
    """
    asked = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield asked.is_set
        return

    def stop(number: int, frame: object) -> None:
        if asked.is_set():
            raise KeyboardInterrupt
        asked.set()

    signals = [number for number in (signal.SIGINT, signal.SIGTERM) if signal.getsignal(number) != signal.SIG_IGN]
    before = {number: signal.signal(number, stop) for number in signals}
    try:
        yield asked.is_set
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
