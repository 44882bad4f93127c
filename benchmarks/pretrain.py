"""Tokens a second of pretraining: ours beside a transformers Trainer doing the same on the same rows.

The same rows of 128 pieces, batch size, vocabulary, layers and width, dropout 0.1, 15 % masked. The Trainer runs as
most people run it (float32, its collator) and in its bfloat16 setting with fused AdamW; ours in float32 and bfloat16.
Only the steps are timed, from the third on, with what they read; not what comes before and after them. Pages of 2 MiB,
which the command line asks torch for, are asked for here for all alike.
"""

from __future__ import annotations

import importlib
import importlib.util
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from anaume.checks.machine import describe_machine
from anaume.config import EncoderConfig
from anaume.data.corpus.prepare import prepare_corpus
from anaume.data.corpus.shards import open_corpus
from anaume.data.corpus.stream import RowStream, SpecialIds
from anaume.engines import share_of_machine
from anaume.model import training_flops
from anaume.tokenization import Tokenizer
from anaume.training import PretrainSettings, pretrain
from benchmarks import harness
from benchmarks.harness import Peer
from benchmarks.texts import paragraphs

SHAPES = {"mini (4 x 256)": (4, 256, 4), "6 x 384": (6, 384, 12)}
ROWS, SEQ_LEN = 32, 128
OURS, TRAINER, TRAINER_BFLOAT16 = (
    "anaume, bfloat16",
    "transformers Trainer, float32 (default)",
    "transformers Trainer, bfloat16",
)
GOALS = {
    "mini (4 x 256)": ((7.1, "the default"), (4.0, "its bfloat16")),
    "6 x 384": ((6.1, "the default"), (3.1, "its bfloat16")),
}
"""What a throw-away script reached on another machine, whose float32 products ran at 40 % of what it can."""
SHARES = {"6 x 384": 0.51}
"""Of the bfloat16 matrix rate, as it reached there."""
WARM_UP = 2  # steps of a run that are not timed: the first ones pick kernels and touch memory


def main() -> None:
    parser = harness.arguments(__doc__, texts=None, repeats=3)
    parser.add_argument("--steps", type=int, default=6, help="optimizer steps a run")
    parser.add_argument("--vocab-size", type=int, default=30522)
    parser.add_argument("--shape", choices=SHAPES, action="append", help="one of the shapes (all unless given)")
    given = parser.parse_args()
    steps, repeats = (2, 1) if given.quick else (given.steps, given.repeats)
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        parts = run(Path(folder), given, steps, repeats)
    command = f"python -m benchmarks.pretrain --steps {steps} --repeats {repeats}"
    harness.publish(harness.page("Pretraining: tokens a second", command, describe_machine().line(), parts), given.out)


def run(folder: Path, given: Any, steps: int, repeats: int) -> list[str]:
    texts = folder / "text.txt"
    texts.write_text("\n\n".join(paragraphs(12_000)), encoding="utf-8")
    vocab_size = given.vocab_size
    small = Tokenizer.train([texts], vocab_size=8000)
    # Padded with entries that never occur, so that the table has the published size whatever the text can fill.
    filler = [f"[unused{index}]" for index in range(vocab_size - small.vocab_size)]
    tokenizer = Tokenizer([*small.vocab, *filler], small.rules)
    prepare_corpus(texts, folder / "corpus", tokenizer=tokenizer, layout="sentences", held_out=0.05, language="en")
    rows = token_rows(folder / "corpus", tokenizer, (WARM_UP + steps) * ROWS)
    parts = [
        f"{ROWS} rows of {SEQ_LEN} pieces a step, vocabulary {vocab_size:,}, {steps} steps a run after {WARM_UP} that "
        f"are not timed, the median of {repeats} runs taken turn by turn. Share of the best matrix rate measured "
        "between the rounds: 6 x body weights a token, 12 x T x width a token and layer for attention, 6 x head "
        "weights a predicted place.",
    ]
    for name in given.shape or SHAPES:
        layers, width, heads = SHAPES[name]
        config = EncoderConfig(
            vocab_size=vocab_size, hidden_size=width, num_hidden_layers=layers, num_attention_heads=heads
        )
        peers = [
            Peer(OURS, ours(folder, config, "bfloat16", steps)),
            Peer("anaume, float32", ours(folder, config, "float32", steps)),
        ]
        if importlib.util.find_spec("accelerate") is not None:
            peers += [
                Peer(TRAINER, trainer(folder, config, tokenizer, rows, steps, False)),
                Peer(TRAINER_BFLOAT16, trainer(folder, config, tokenizer, rows, steps, True)),
            ]
        about = {"commit": harness.commit(), "versions": harness.versions(), "steps": steps, "vocab": vocab_size}
        results = harness.Results(f"pretrain-{width}", about, fresh=given.fresh)
        rates = harness.MatrixRates(results)
        timings = harness.measure(peers, results, repeats=repeats, warmup=0, each_round=rates.measure)
        tokens = ROWS * SEQ_LEN * steps
        places = ROWS * round(0.15 * SEQ_LEN) * steps
        work = training_flops(config, tokens=tokens, places=places, seq_len=SEQ_LEN)
        default, half = timings.get(TRAINER), timings.get(TRAINER_BFLOAT16)
        table = []
        for peer, timing in timings.items():
            rate = rates.best("bfloat16" if "bfloat16" in peer else "float32")
            times = [f"{other.median / timing.median:.1f}" if other else "" for other in (default, half)]
            share = f"{share_of_machine(work, timing.median, rate):.0%}" if "anaume" in peer else ""
            table.append([peer, f"{tokens / timing.median:,.0f}", f"{timing.spread:.0%}", *times, share])
        columns = ["how", "tokens/s", "spread", "times the default", "times its bfloat16", "of the rate"]
        parts += [f"## {name}", harness.table(columns, table)]
        if default and half:
            mine = timings[OURS].median
            goals = zip(GOALS[name], (default.median / mine, half.median / mine), strict=True)
            told = [
                f"{goal:g} times {what}: {got:.1f}, {'met' if got >= goal else 'missed'}" for (goal, what), got in goals
            ]
            if (wanted := SHARES.get(name)) is not None:
                got = share_of_machine(work, mine, rates.best("bfloat16"))
                told.append(f"{wanted:.0%} of the matrix rate: {got:.0%}, {'met' if got >= wanted else 'missed'}")
            parts.append(f"Goals in bfloat16: {'; '.join(told)}.")
    return parts


def token_rows(corpus: Path, tokenizer: Tokenizer, count: int) -> list[list[int]]:
    specials = SpecialIds(tokenizer.pad_id, tokenizer.cls_id, tokenizer.sep_id)
    stream = RowStream(open_corpus(corpus).split("train"), specials, seq_len=SEQ_LEN)
    rows: list[list[int]] = stream.next_batch(count).token_ids.tolist()
    return rows


def ours(folder: Path, config: EncoderConfig, precision: str, steps: int) -> Callable[[], Callable[[], Any]]:
    settings = PretrainSettings().with_values(
        [
            "model.size=custom",
            f"model.hidden_size={config.hidden_size}",
            f"model.num_hidden_layers={config.num_hidden_layers}",
            f"model.num_attention_heads={config.num_attention_heads}",
            f"data.seq_len={SEQ_LEN}",
            f"run.batch_rows={ROWS}",
            f"run.steps={WARM_UP + steps}",
            "run.log_seconds=0.0",
            f"run.precision={precision}",
            "run.evaluations=0",
            "run.curves=false",
        ]
    )

    def prepare() -> Callable[[], Any]:
        def once() -> float:
            rows: list[dict[str, Any]] = []
            with tempfile.TemporaryDirectory(dir=folder) as run_folder:
                pretrain(folder / "corpus", Path(run_folder) / "run", settings, device="cpu", report=rows.append)
            seconds, before = 0.0, 0
            for row in rows:
                if "tokens" in row:
                    seconds += (row["tokens"] - before) / row["tokens_per_second"] if row["step"] > WARM_UP else 0.0
                    before = row["tokens"]
            return seconds

        return once

    return prepare


def trainer(
    folder: Path, config: EncoderConfig, tokenizer: Tokenizer, rows: list[list[int]], steps: int, bfloat16: bool
) -> Callable[[], Callable[[], Any]]:
    def prepare() -> Callable[[], Any]:
        transformers = importlib.import_module("transformers")
        transformers.utils.logging.set_verbosity_error()
        saved = folder / "tokenizer"
        tokenizer.save(saved)
        theirs = transformers.AutoTokenizer.from_pretrained(saved)
        collator = transformers.DataCollatorForLanguageModeling(theirs, mlm_probability=0.15)
        dataset = [{"input_ids": row, "attention_mask": [1] * len(row)} for row in rows]

        class Stopwatch(transformers.TrainerCallback):  # type: ignore[misc,name-defined]
            def __init__(self) -> None:
                self.ends: list[float] = []

            def on_step_end(self, *_: Any, **__: Any) -> None:
                self.ends.append(time.perf_counter())

        def once() -> float:
            torch.manual_seed(0)
            model = transformers.BertForMaskedLM(
                transformers.BertConfig(
                    vocab_size=config.vocab_size,
                    hidden_size=config.hidden_size,
                    num_hidden_layers=config.num_hidden_layers,
                    num_attention_heads=config.num_attention_heads,
                    intermediate_size=config.intermediate_size,
                )
            )
            with tempfile.TemporaryDirectory(dir=folder) as out:
                arguments = transformers.TrainingArguments(
                    output_dir=out,
                    max_steps=WARM_UP + steps,
                    per_device_train_batch_size=ROWS,
                    learning_rate=1e-4,
                    bf16=bfloat16,
                    optim="adamw_torch_fused" if bfloat16 else "adamw_torch",
                    report_to=[],
                    save_strategy="no",
                    disable_tqdm=True,
                    use_cpu=True,
                )
                watch = Stopwatch()
                transformers.Trainer(
                    model=model, args=arguments, train_dataset=dataset, data_collator=collator, callbacks=[watch]
                ).train()
            return watch.ends[-1] - watch.ends[WARM_UP - 1]

        return once

    return prepare


if __name__ == "__main__":
    main()
