"""The torch engine: the bundle's own model, in eval mode, without gradients, on CPU or GPU."""

from __future__ import annotations

import copy
import os
import warnings
from collections.abc import Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from anaume.config import EmbeddingConfig
from anaume.engines.packing import pack, packing_pays
from anaume.engines.protocol import PRECISIONS, Batch, Engine, Precision, Vectors
from anaume.engines.watching import Watch
from anaume.errors import AnaumeWarning, SettingsError
from anaume.logs import get_logger
from anaume.model import Bert, EncoderOutput, pool

log = get_logger(__name__)

# Tokens of a batch. Larger batches leave the processor's caches, smaller ones waste its width; measured on two
# machines with AVX-512 (docs/log.md). A GPU wants more work at once.
CPU_BATCH_TOKENS: dict[Precision, int] = {"float32": 1024, "bfloat16": 2048}
GPU_BATCH_TOKENS = 16384

_imported_in = os.getpid()


def pick_device(device: str) -> torch.device:
    """Return the torch device for "auto" (cuda, then mps, then cpu) or a device's name.

    Raises SettingsError (a ValueError) for a name torch does not know or a device that is not there.
    """
    if device == "auto":
        if torch.cuda.is_available():
            return torch.device("cuda")
        return torch.device("mps" if torch.backends.mps.is_available() else "cpu")
    try:
        chosen = torch.device(device)
        torch.empty(1, device=chosen).cpu()  # some devices hold no values
    except (RuntimeError, AssertionError, NotImplementedError, TypeError) as error:
        reason = str(error).splitlines()[0]
        raise SettingsError(f"device {device!r} can't be used here (try auto or cpu): {reason}") from None
    return chosen


def _mind_fork() -> None:
    """Compute with one thread in a process that was forked: torch would wait for those that stayed behind, for ever."""
    global _imported_in
    if os.getpid() != _imported_in:
        _imported_in = os.getpid()
        if torch.get_num_threads() > 1:
            warnings.warn(
                "this process was forked, and torch's threads don't come along: it computes with one; where it should "
                "have more, start it anew (multiprocessing.get_context('spawn'))",
                AnaumeWarning,
                stacklevel=2,
            )
            torch.set_num_threads(1)


class TorchEngine:
    """Runs batches through a model that it never changes, from any number of threads.

    The caller's model may be in training mode or be trained between two calls: the engine keeps a twin in eval mode
    that shares its tensors (or holds them converted, on another device or in bfloat16) and remakes the twin when the
    caller's tensors have changed.
    """

    name = "torch"

    def __init__(
        self, model: Bert, embedding: EmbeddingConfig, *, precision: Precision = "float32", device: str = "auto"
    ) -> None:
        if precision not in PRECISIONS:
            raise SettingsError(f"precision must be one of {', '.join(PRECISIONS)}; got {precision!r}")
        self._device = pick_device(device)
        self._dtype = torch.float32 if precision == "float32" else torch.bfloat16
        self._source = model
        self._embedding = embedding
        self._twin: _Twin | None = None
        self.precision: Precision = precision
        self.device = str(self._device)
        self.max_batch_tokens = CPU_BATCH_TOKENS[precision] if self._device.type == "cpu" else GPU_BATCH_TOKENS

    def for_tokens(self, tokens: int) -> Engine:
        """Return itself."""
        return self

    def at_once(self, head: str | None = None) -> int:
        """Return 1: all threads work at one batch."""
        return 1

    def embed(self, batch: Batch) -> Vectors:
        """Return one vector a row, (batch, embedding_size) float32: encoder, pooling, normalisation."""
        with torch.inference_mode():
            mask = torch.from_numpy(batch.attention_mask).to(self._device)
            output = self._run(batch, mask)
            counted = mask if batch.pooling_mask is None else torch.from_numpy(batch.pooling_mask).to(self._device)
            vectors = pool(output.last_hidden_state.float(), counted, self._embedding.pooling or "mean")
            if self._embedding.normalize:
                vectors = F.normalize(vectors, dim=1)
            result: Vectors = vectors.cpu().numpy()
        return result

    def hidden_states(self, batch: Batch, *, keep_attentions: bool = False) -> EncoderOutput:
        """Return everything the encoder computes for a batch: every layer, in float32 on the CPU.

        hidden_states is num_hidden_layers + 1 tensors (batch, seq_len, hidden_size); attentions, where asked for,
        num_hidden_layers tensors (batch, heads, seq_len, seq_len).
        """
        with torch.inference_mode():
            mask = torch.from_numpy(batch.attention_mask).to(self._device)
            output = self._run(batch, mask, keep_hidden_states=True, keep_attentions=keep_attentions)

        def home(tensors: tuple[Tensor, ...] | None) -> tuple[Tensor, ...] | None:
            return None if tensors is None else tuple(tensor.float().cpu() for tensor in tensors)

        return EncoderOutput(
            output.last_hidden_state.float().cpu(), home(output.hidden_states), home(output.attentions)
        )

    def token_log_probabilities(self, batch: Batch, positions: Sequence[int], head: str) -> Vectors:
        """Return what an mlm head thinks of one place a row: (batch, vocab_size) float32 log probabilities.

        positions  (batch,) places; raises SettingsError when the model has no such head
        """
        with torch.inference_mode():
            mask = torch.from_numpy(batch.attention_mask).to(self._device)
            states = self._run(batch, mask).last_hidden_state
            places = torch.as_tensor(positions, dtype=torch.int64, device=self._device)[:, None]
            logits = self._eval_twin().head_logits(head, states, mask, places)
            result: Vectors = logits[:, 0].float().log_softmax(dim=-1).cpu().numpy()
        return result

    def head_logits(self, batch: Batch, head: str) -> Vectors:
        """Return the logits of a head, float32: (batch, labels), (batch,) or (batch, seq_len, labels), as heads have.

        Raises SettingsError when the model has no such head.
        """
        with torch.inference_mode():
            mask = torch.from_numpy(batch.attention_mask).to(self._device)
            model = self._eval_twin()
            output = self._run(batch, mask, keep_hidden_states=model.reads_layers(head))
            result: Vectors = model.head_logits(head, model.read_by(head, output), mask).float().cpu().numpy()
        return result

    def _run(self, batch: Batch, mask: Tensor, **keep: bool) -> EncoderOutput:
        log.debug(
            "batch of %d rows, seq_len %d, padding share %.3f",
            *batch.token_ids.shape,
            1.0 - float(batch.attention_mask.mean()) if batch.attention_mask.size else 0.0,
        )
        token_ids = torch.from_numpy(batch.token_ids)
        model = self._eval_twin()
        if self._device.type != "cpu":
            self._source.embeddings.check_ids(token_ids)  # on the host: the device would not say which ID was wrong
            token_ids = token_ids.to(self._device)
        segment_ids = None if batch.segment_ids is None else torch.from_numpy(batch.segment_ids).to(self._device)
        # Without padding the bias would be all zeros: leaving it out spares an addition per layer.
        full = bool(batch.attention_mask.all())
        output: EncoderOutput = model(token_ids, None if full else mask, segment_ids, **keep)
        return output

    def _eval_twin(self) -> Bert:
        if self._device.type == "cpu":
            _mind_fork()
        held = self._twin
        if held is not None and not held.watch.changed():
            return held.model
        tensors = list(self._source.parameters())
        # A shared tensor shows every change by itself; what is converted or packed is stale once the original changed.
        # A model that the caller has made half or double still runs in the precision that was asked for.
        shared = self._dtype == torch.float32 and all(
            tensor.dtype == torch.float32 and tensor.device == self._device for tensor in tensors
        )
        watch = Watch(self._source)
        with torch.inference_mode(False), torch.no_grad():
            # The memo makes the copy keep the caller's parameters and buffers instead of duplicating them.
            model = copy.deepcopy(self._source, {id(tensor): tensor for tensor in tensors})
            if not shared:
                model = copy.deepcopy(model).to(device=self._device, dtype=self._dtype)
            model.eval()
            if self._device.type == "cpu" and packing_pays(self._dtype):
                pack(model.encoder)
        self._twin = _Twin(model, watch)
        return model


@dataclass(frozen=True)
class _Twin:
    """What the engine runs, and whether the caller's tensors are still what they were when it was made."""

    model: Bert
    watch: Watch
