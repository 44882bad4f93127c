from collections.abc import Iterator

import pytest
import torch


@pytest.fixture(autouse=True)
def _same_numbers_each_time() -> Iterator[None]:
    """Every test starts from the same generator state, on one thread: at these sizes more only wait for each other."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    yield
    torch.set_num_threads(threads)
