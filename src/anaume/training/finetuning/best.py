"""The best weights of a run so far, beside its checkpoints: best-STEP.safetensors."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

import safetensors.torch

from anaume.data import atomic_file
from anaume.errors import DataError
from anaume.model import Bert

_NAME = re.compile(r"best-(\d{8,})\.safetensors")


class BestWeights:
    """Weights by the step they were best at; a file stays as long as a checkpoint on disk speaks of it."""

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

    def remove_after(self, step: int) -> None:
        """Remove what a killed sitting left of steps that the run, taken up again at `step`, has yet to do."""
        self._keep(own for own in self._steps() if own <= step)

    def remove_unspoken(self, checkpoints: Iterable[int]) -> None:
        """Keep what checkpoints of these steps speak of: each of the last one up to its step."""
        steps = self._steps()
        self._keep(max((own for own in steps if own <= step), default=-1) for step in checkpoints)

    def remove(self) -> None:
        """Remove all of them."""
        self._keep(())

    def _keep(self, steps: Iterable[int]) -> None:
        for step in set(self._steps()) - set(steps):
            self._path(step).unlink(missing_ok=True)

    def _steps(self) -> list[int]:
        names = (path.name for path in self._folder.glob("best-*.safetensors"))
        return [int(found[1]) for name in names if (found := _NAME.fullmatch(name))]

    def _path(self, step: int) -> Path:
        return self._folder / f"best-{step:08d}.safetensors"
