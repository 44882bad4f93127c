from collections.abc import Iterator

import pytest
import torch


@pytest.fixture(autouse=True)
def _quiet_references(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The parity references print progress bars and ask the hub unless told not to."""
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    from transformers.utils import logging

    logging.disable_progress_bar()
    yield
    torch.set_num_threads(threads)
