"""Bundle: tokenizer, model, pooling and record as one thing that can't drift apart."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import numpy.typing as npt

from anaume.bundle.choosing import EngineName, Engines
from anaume.bundle.contextual import TokenEmbeddings, TokenVectors, token_vectors
from anaume.bundle.embedding import EmbedReport, LongPolicy, embed_texts, require_finite
from anaume.bundle.exported import LONGEST_STATIC, Exported
from anaume.bundle.find import find_bundle
from anaume.bundle.fingerprint import vector_fingerprint, weights_fingerprint
from anaume.bundle.parts import BundleParts
from anaume.bundle.read import read_bundle
from anaume.bundle.write import write_bundle
from anaume.config import EmbeddingConfig, EncoderConfig, HeadConfig, HeadKind
from anaume.data import pad, token_budget_batches
from anaume.engines import Batch, Engine, Precision, Vectors
from anaume.errors import AnaumeWarning, SettingsError
from anaume.model import Bert
from anaume.tasks.fill import Filled, TextScore, fill_blanks, score_text
from anaume.tokenization import Tokenizer

if TYPE_CHECKING:
    from anaume.bundle.predicting import Predicted
    from anaume.bundle.ranking import Ranked
    from anaume.tasks.registry import AnyTask

# What tasks need is imported where a task is asked for: who embeds would wait a tenth of the start for it.


class Bundle:
    """Everything that must not drift apart, held by one object: `tokenizer`, `model`, `embedding`, `record`.

    Make one with `anaume.load`, `Bundle.load` or `Bundle.new`. Its methods may be called from many threads at once.
    """

    def __init__(
        self,
        parts: BundleParts,
        *,
        precision: Precision = "float32",
        device: str = "auto",
        engine: EngineName = "auto",
    ) -> None:
        _check_embedding(parts)
        self.parts = parts
        self.precision: Precision = precision
        self._wanted: dict[str, Any] = {"precision": precision, "device": device, "engine": engine}
        self._engines = Engines(parts, wanted=engine, precision=precision, device=device)

    # -- making, loading, saving ---------------------------------------------------------------------------------

    @classmethod
    def new(
        cls,
        tokenizer: Tokenizer,
        config: EncoderConfig,
        *,
        heads: Sequence[HeadKind] | Mapping[str, HeadConfig] = (),
        embedding: EmbeddingConfig | None = None,
        seed: int = 0,
    ) -> Self:
        """Return an untrained bundle; the same seed draws the same weights.

        heads      kinds that need no labels ("mlm", "nsp", ...), or name -> HeadConfig
        embedding  how texts become vectors; None = mean pooling without a warrant (embed warns)

        Raises SettingsError (a ValueError) when the tokenizer and the config have different vocabulary sizes, and for
        other wrong arguments.
        """
        if not isinstance(tokenizer, Tokenizer) or not isinstance(config, EncoderConfig):
            raise SettingsError(
                f"expected a Tokenizer and an EncoderConfig; got {type(tokenizer).__name__} and {type(config).__name__}"
            )
        if isinstance(heads, str):
            raise SettingsError(f"heads must be a list of kinds, or name -> HeadConfig; got the one text {heads!r}")
        if isinstance(seed, bool) or not isinstance(seed, int):
            raise SettingsError(f"seed must be a whole number; got {seed!r}")
        if tokenizer.vocab_size != config.vocab_size:
            raise SettingsError(
                f"the tokenizer has {tokenizer.vocab_size} tokens but config.vocab_size is {config.vocab_size}: "
                "they must be equal"
            )
        named: Mapping[str, HeadConfig]
        named = heads if isinstance(heads, Mapping) else {kind: HeadConfig(kind=kind) for kind in heads}
        model = Bert(config, named, seed=seed)
        if embedding is None:
            embedding = EmbeddingConfig(max_length=config.max_position_embeddings)
        return cls(BundleParts.untrained(tokenizer, model, embedding))

    @classmethod
    def load(
        cls,
        name_or_path: str | Path,
        *,
        precision: Precision = "float32",
        device: str = "auto",
        engine: EngineName = "auto",
    ) -> Self:
        """Open a bundle, or a Hugging Face or sentence-transformers directory: see `anaume.load`."""
        return cls(read_bundle(find_bundle(name_or_path)), precision=precision, device=device, engine=engine)

    def save(self, path: str | Path) -> None:
        """Write the bundle as a directory that transformers and sentence-transformers open too.

        Kill-safe: afterwards the directory holds the old bundle or the new one, whole. Raises BundleError (a
        ValueError) when `path` holds something that is not a bundle, or can't be written.
        """
        write_bundle(self.parts, Path(path))

    # -- its parts -----------------------------------------------------------------------------------------------

    @property
    def tokenizer(self) -> Tokenizer:
        """Text to token IDs."""
        return self.parts.tokenizer

    @property
    def model(self) -> Bert:
        """The torch module; it may be trained in place, and `embed` then uses the trained weights.

        Raises SettingsError for an export, which has none.
        """
        if self.parts.exported is not None:
            raise SettingsError(
                f"{self.parts.source} is an export ({self.parts.exported.form}) and holds no weights to look at, train "
                "or save: use the bundle it was made of"
            )
        return self.parts.model

    @property
    def exported(self) -> Exported | None:
        """What an export holds in place of weights, with its certificate; None for a bundle."""
        return self.parts.exported

    @property
    def config(self) -> EncoderConfig:
        """The shape of the encoder."""
        return self.parts.model.config

    @property
    def embedding(self) -> EmbeddingConfig:
        """Pooling, normalisation, lengths and prompts."""
        return self.parts.embedding

    @property
    def embedding_size(self) -> int:
        """The length of the vectors `embed` returns."""
        return self.config.hidden_size if self.parts.exported is None else self.parts.exported.embedding_size

    @property
    def device(self) -> str:
        """Where texts are embedded unless a call says otherwise."""
        return self._engines.get().device

    @property
    def engine(self) -> Engine:
        """What runs batches of token IDs for this bundle, on its own device and in its own precision."""
        return self._engines.get()

    def engine_for(self, texts: int) -> Engine:
        """Return what runs a call of so many texts: engine="auto" may choose another one for many than for few."""
        return self._engines.get(texts=texts)

    @property
    def fingerprint(self) -> str:
        """The fingerprint of the vectors this bundle makes (hashes all weights: about 0.1 s for 22 M parameters).

        Vectors that average windows (`long="window"`) have another one, which their report carries.
        """
        return self.fingerprint_for("truncate")

    def fingerprint_for(self, long: LongPolicy) -> str:
        """The fingerprint of vectors made under a policy for long texts: "window" gives other vectors than the rest."""
        exported = self.parts.exported
        weights = weights_fingerprint(self.model) if exported is None else exported.weights
        return vector_fingerprint(self.tokenizer, weights, self.embedding, long=long)

    def with_embedding(self, embedding: EmbeddingConfig) -> Self:
        """Return a bundle of the same tokenizer and weights that pools, cuts or prompts differently.

        Raises SettingsError for an export, whose pooling is part of it.
        """
        if self.parts.exported is not None:
            raise SettingsError(f"{self.parts.source} is an export: change the bundle it was made of, and export that")
        return type(self)(replace(self.parts, embedding=embedding), **self._wanted)

    # -- using it ------------------------------------------------------------------------------------------------

    def embed(
        self,
        texts: Sequence[str],
        *,
        as_: str | None = None,
        long: LongPolicy = "truncate",
        device: str | None = None,
        progress: bool = False,
    ) -> Vectors:
        """Return one vector a text, (n, embedding_size) float32, in input order; see `embed_report`."""
        return self._embed(texts, as_, long, device, progress, fingerprint="").vectors

    def embed_report(
        self,
        texts: Sequence[str],
        *,
        as_: str | None = None,
        long: LongPolicy = "truncate",
        device: str | None = None,
        progress: bool = False,
    ) -> EmbedReport:
        """Embed texts and say what the model saw of them.

        as_       the name of a prompt of the bundle, such as "query" or "passage"; None = the bundle's default
        long      texts over embedding.max_length tokens: "truncate" cuts them, "window" averages the vectors of
                  their windows weighted by tokens, "error" refuses them
        device    "cpu", "cuda", ...; None = the bundle's own
        progress  shows a bar on stderr

        The vectors don't depend on how the texts are batched: float32 unit vectors agree within 1e-5. What was cut,
        unknown or unfit is in the report and in one AnaumeWarning. Raises SettingsError for a wrong argument,
        DataError for a text that is no string or, under "error", is too long, BundleError when the weights give no
        finite numbers (all ValueErrors).
        """
        return self._embed(texts, as_, long, device, progress, fingerprint=self.fingerprint_for(long))

    def embed_stream(
        self,
        chunks: Iterable[Sequence[str]],
        *,
        as_: str | None = None,
        long: LongPolicy = "truncate",
        device: str | None = None,
        fingerprint: str | None = None,
    ) -> Iterator[EmbedReport]:
        """Embed chunk after chunk of texts, in bounded memory: one report a chunk, arguments as in `embed_report`.

        fingerprint  what `fingerprint_for(long)` gave just before; None = the weights are hashed here, once

        Nothing is warned about: each report's messages say what is true of its chunk; `EmbedTotals` sums reports up.
        Nor are vectors checked to be finite: who writes them knows their rows, and refuses them by name.
        """
        fingerprint = self.fingerprint_for(long) if fingerprint is None else fingerprint
        for texts in chunks:
            yield self._embed(texts, as_, long, device, progress=False, fingerprint=fingerprint, warn=False)

    def hidden_states(self, texts: Sequence[str], *, layers: Sequence[int] | None = None) -> list[TokenVectors]:
        """Return the contextual vectors of every token of every text, special tokens included.

        layers  which layers, 0 = input embeddings, negative from the end; None = the last one

        Texts over embedding.max_length tokens are refused (TokenizerError, a ValueError): cut vectors would not be the
        text's. Raises SettingsError and DataError for wrong arguments, BundleError for weights that give no numbers.
        """
        return token_vectors(
            texts,
            layers,
            tokenizer=self.tokenizer,
            engine=self._engines.get(),
            num_hidden_layers=self.config.num_hidden_layers,
            max_length=self.embedding.max_length,
        )

    @property
    def task(self) -> AnyTask:
        """What its head was trained for; a foreign checkpoint's head tells by its class.

        Raises SettingsError when it has no such head.
        """
        return self._predictor[0]

    @property
    def task_length(self) -> int:
        """The longest row its head was trained on, in tokens. Raises SettingsError when it has no such head."""
        return self._predictor[1]

    @cached_property
    def _predictor(self) -> tuple[AnyTask, int]:
        from anaume.bundle.predicting import predictor

        return predictor(self.parts)

    def predict(self, inputs: Sequence[Any]) -> list[Any]:
        """Return a prediction for each input, in order: label, probabilities, coverage, ... as its task has them.

        inputs  texts; or pairs (text, text), (question, context), (question, [option, ...]), lists of words: whatever
                the task reads; or labelled examples (`anaume.data.labelled`)

        What was cut or unknown is in the predictions' coverage and in one AnaumeWarning. Raises SettingsError for a
        bundle without a task's head, DataError naming an input that does not fit.
        """
        return self.predict_report(inputs).predictions

    def predict_report(self, inputs: Sequence[Any], *, warn: bool = True) -> Predicted:
        """Predict, and say what the model saw of the texts; arguments as in `predict`.

        warn  False = nothing is warned about: the caller sums up what the reports of many calls say
        """
        from anaume.bundle.predicting import predict_examples
        from anaume.data.labelled import Example

        task, max_length = self.task, self.task_length
        if isinstance(inputs, str | bytes) or not isinstance(inputs, Sequence):
            raise SettingsError(f"inputs must be a list; got one {type(inputs).__name__}: put it into a list")
        examples = [
            given if isinstance(given, Example) else task.example(given, f"input {number}")
            for number, given in enumerate(inputs)
        ]
        predicted = predict_examples(examples, task, self.parts, self._engines.get(texts=len(examples)), max_length)
        if warn and (messages := predicted.messages(max_length)):
            warnings.warn("; ".join(messages), AnaumeWarning, stacklevel=3)
        return predicted

    def rank(self, query: str, passages: Sequence[str], *, top_k: int | None = None) -> list[Ranked]:
        """Return passages by how well they answer a query, best first.

        top_k  how many are returned; None = all

        A cross-encoder reads each together with the query; late interaction compares their tokens (MaxSim). What was
        cut is in an AnaumeWarning. Raises SettingsError for a bundle without one score of a pair (`anaume finetune
        ranking` and `late-interaction` train one), DataError for what is no text.
        """
        from anaume.bundle.late import late_ranked
        from anaume.bundle.ranking import check_ranker, checked_passages, ranked
        from anaume.tasks.late_interaction import LateInteraction

        check_ranker(self)
        pairs = checked_passages(query, passages)
        if not pairs:
            return []
        late = isinstance(self.task, LateInteraction)
        found = late_ranked(query, passages, self._token_embeddings) if late else ranked(self.predict_report(pairs))
        return found[:top_k]

    def token_embeddings(self, texts: Sequence[str], *, as_: str = "passage") -> list[TokenEmbeddings]:
        """Return a vector a token of each text, (tokens, size) float32 of length 1, in input order.

        as_  "query" or "passage": which prompt they get, and whether [MASK]s are put behind

        The sum over a query's tokens of the best dot product with a passage's is their MaxSim. Vectors don't depend on
        how texts are batched. What was cut is in one AnaumeWarning. Raises SettingsError for a bundle that was not
        trained by `anaume finetune late-interaction`, DataError for what is no text.
        """
        return self._token_embeddings(texts, as_)

    def token_report(self, texts: Sequence[str], *, as_: str = "passage") -> Predicted:
        """As `token_embeddings`, with what the model saw of the texts; nothing is warned about."""
        from anaume.bundle.late import late_task, token_embeddings

        return token_embeddings(
            texts,
            as_,
            task=late_task(self.task),
            max_length=self.task_length,
            tokenizer=self.tokenizer,
            engine=self._engines.get(texts=len(texts) if isinstance(texts, Sequence) else 0),
        )

    def _token_embeddings(self, texts: Sequence[str], as_: str) -> list[TokenEmbeddings]:
        report = self.token_report(texts, as_=as_)
        if messages := report.messages(self.task_length):
            warnings.warn("; ".join(messages), AnaumeWarning, stacklevel=3)
        return report.predictions

    def fill(
        self, text: str, *, top_k: int = 5, max_pieces: int = 1, candidates: Sequence[str] | None = None
    ) -> Filled:
        """Guess what stands at each "[MASK]" of a text; here, and only here, that string is a blank.

        top_k       guesses a blank
        max_pieces  guesses may have up to so many pieces
        candidates  only these words; None = all

        Raises SettingsError without an mlm head, DataError without a blank or for a text too long (both ValueErrors).
        Of a text longer than the rows it was trained on, an AnaumeWarning says so.
        """
        return fill_blanks(
            text,
            tokenizer=self.tokenizer,
            predict=self.token_log_probabilities,
            max_length=self.config.max_position_embeddings,
            usual_length=self.embedding.max_length,
            top_k=top_k,
            max_pieces=max_pieces,
            candidates=candidates,
        )

    def score(self, text: str) -> TextScore:
        """Return how likely the mlm head finds a text: each token's log probability with it alone hidden.

        Raises SettingsError without an mlm head, TokenizerError for a text too long (both ValueErrors). Of a text
        longer than the rows it was trained on, an AnaumeWarning says so.
        """
        return score_text(
            text,
            tokenizer=self.tokenizer,
            predict=self.token_log_probabilities,
            max_length=self.config.max_position_embeddings,
            usual_length=self.embedding.max_length,
        )

    def token_log_probabilities(self, rows: Sequence[Sequence[int]], places: Sequence[int]) -> npt.NDArray[np.float32]:
        """Return what the mlm head thinks of one place a row: (rows, vocab_size) float32 log probabilities.

        rows    token IDs, special ones included, of any lengths
        places  the place asked about in each row

        Raises SettingsError without an mlm head, BundleError for weights that give no numbers (both ValueErrors).
        """
        if "mlm" not in self.parts.model.heads:
            heads = ", ".join(self.parts.model.heads) or "none"
            raise SettingsError(
                f"filling blanks needs a masked-word head, and this bundle has: {heads}; pretrain one, or load a "
                "checkpoint that kept its own (BertForMaskedLM, BertForPreTraining)"
            )
        if self.parts.record.predicts_next:
            raise SettingsError(
                "this bundle was trained on the next token (clm), not on masked ones: what it says of [MASK] means "
                "nothing; pretrain with --objective mlm to fill blanks"
            )
        engine = self._engines.get()
        result = np.zeros((len(rows), self.config.vocab_size), dtype=np.float32)
        for batch in token_budget_batches([len(row) for row in rows], engine.max_batch_tokens, close=True):
            token_ids, attention_mask = pad([rows[index] for index in batch], self.tokenizer.pad_id)
            where = [places[index] for index in batch]
            result[batch] = engine.token_log_probabilities(Batch(token_ids, attention_mask), where, "mlm")
        require_finite(result)
        return result

    def _embed(
        self,
        texts: Sequence[str],
        as_: str | None,
        long: LongPolicy,
        device: str | None,
        progress: bool,
        fingerprint: str,
        warn: bool = True,
    ) -> EmbedReport:
        self.parts.require_one_vector()
        return embed_texts(
            texts,
            tokenizer=self.tokenizer,
            engine=self._engines.get(device, len(texts) if isinstance(texts, Sequence) else 0),
            embedding=self.embedding,
            embedding_size=self.embedding_size,
            fingerprint=fingerprint,
            as_=as_,
            long=long,
            progress=progress,
            warn=warn,
        )

    def __repr__(self) -> str:
        if self.parts.exported is not None:
            form, size = self.parts.exported.form, self.embedding_size
            return f"Bundle({self.parts.source}, {form} export, {size} numbers a text, {self.precision})"
        shape = f"{self.config.num_hidden_layers} layers x {self.config.hidden_size}"
        return f"Bundle({self.parts.source or 'new'}, {shape}, {self.tokenizer.vocab_size} tokens, {self.precision})"


def _check_embedding(parts: BundleParts) -> None:
    embedding, longest = parts.embedding, parts.model.config.max_position_embeddings
    if parts.exported is not None and parts.exported.form == "static":
        longest = LONGEST_STATIC
    if not isinstance(embedding, EmbeddingConfig):
        raise SettingsError(f"embedding must be an EmbeddingConfig; got {type(embedding).__name__}")
    if embedding.max_length > longest:
        raise SettingsError(
            f"embedding.max_length is {embedding.max_length}, and the position table has {longest} rows "
            f"(max_position_embeddings): give EmbeddingConfig(max_length={longest}), or less"
        )
