"""The best weights of a run so far, beside its checkpoints: best-STEP.safetensors."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import safetensors.torch

from anaume.data import atomic_file
from anaume.errors import DataError
from anaume.model import Bert


class BestWeights:
    """Weights by the step they were best at; a file stays as long as a checkpoint on disk may speak of it."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def save(self, model: Bert, step: int) -> None:
        """Write the weights, whole or not at all. Raises DataError on a full disk."""
        tensors = {name: tensor.detach().cpu().contiguous() for name, tensor in model.state_dict().items()}
        with atomic_file(self._path(step)) as file:
            file.write(safetensors.torch.save(tensors))

    def load(self, model: Bert, step: int) -> None:
        """Put the weights of a step into the model. Raises DataError where they are not there or not whole."""
        path = self._path(step)
        try:
            model.load_state_dict(safetensors.torch.load(path.read_bytes()))
        except (OSError, RuntimeError, ValueError, safetensors.SafetensorError) as error:
            reason = str(error).splitlines()[0]
            raise DataError(f"{path}: the run's best weights can't be read ({reason}): begin anew elsewhere") from error

    def remove_all_but(self, steps: Iterable[int | None]) -> None:
        """Remove the files of other steps."""
        kept = {self._path(step) for step in steps if step is not None}
        for path in self._folder.glob("best-*.safetensors"):
            if path not in kept:
                path.unlink(missing_ok=True)

    def _path(self, step: int) -> Path:
        return self._folder / f"best-{step:08d}.safetensors"
