"""The GPU path, checked and measured: parity with the CPU, embedding and training rates, masks without a wait."""

from __future__ import annotations

import argparse
import random
import sys
import time
from pathlib import Path

import numpy as np
import torch

from anaume.bundle import Bundle
from anaume.config import EmbeddingConfig, EncoderConfig, HeadConfig
from anaume.model import Bert, generate_random_mask
from anaume.tokenization import Tokenizer
from anaume.training.pretraining.objective import PretrainLoss, Targets
from benchmarks import harness

WORDS = [f"{a}{b}" for a in ("ka", "sa", "ta", "na", "ha", "ma", "ya", "ra") for b in ("ri", "no", "shi", "to", "ku")]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--quick", action="store_true", help="tiny sizes: only shows that it works")
    parser.add_argument("-o", "--out", type=Path)
    given = parser.parse_args()
    device = torch.device(given.device)
    if device.type == "cuda" and not torch.cuda.is_available():
        print("no GPU that torch can use: nothing checked", file=sys.stderr)
        return
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else "cpu"
    rows = [*parity_and_embedding(device, given.quick), *training(device, given.quick), *masks(device, given.quick)]
    text = harness.page("The GPU path", "bash benchmarks/gpu_check.sh", name, [harness.table(["what", "value"], rows)])
    harness.publish(text, given.out)


def parity_and_embedding(device: torch.device, quick: bool) -> list[list[str]]:
    draw = random.Random(0)
    texts = [" ".join(draw.choices(WORDS, k=draw.randint(3, 120))) for _ in range(200 if quick else 4000)]
    tokenizer = Tokenizer.train(texts[:200], vocab_size=400)
    size = "tiny" if quick else "base"
    bundle = Bundle.new(
        tokenizer,
        EncoderConfig.named(size, vocab_size=tokenizer.vocab_size),
        embedding=EmbeddingConfig(pooling="mean", normalize=True),
    )
    here = bundle.embed(texts[:64], device="cpu")
    there = bundle.embed(texts[:64], device=str(device))
    rows = [[f"vectors of {size}, float32, largest difference to the CPU", f"{np.abs(here - there).max():.1e}"]]
    for precision in ("float32", "bfloat16"):
        fast = Bundle(bundle.parts, precision=precision, device=str(device))  # type: ignore[arg-type]
        fast.embed(texts[:256])
        begun = time.perf_counter()
        fast.embed(texts)
        rows.append([f"embedding, {size}, {precision}", f"{len(texts) / (time.perf_counter() - begun):,.0f} texts/s"])
    return rows


def training(device: torch.device, quick: bool) -> list[list[str]]:
    size, batch, seq_len, vocab, steps = ("tiny", 8, 32, 500, 3) if quick else ("base", 256, 128, 30522, 30)
    config = EncoderConfig.named(size, vocab_size=vocab)
    model = Bert(config, {"mlm": HeadConfig(kind="mlm")}, seed=0).to(device).train()
    loss = PretrainLoss(model)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    token_ids = torch.randint(5, vocab, (batch, seq_len), device=device)
    zeros = torch.zeros_like(token_ids)
    positions = torch.arange(seq_len, device=device).expand(batch, -1).contiguous()

    def step(number: int) -> None:
        mask = generate_random_mask(token_ids, zeros == 0, mask_id=4, vocab_size=vocab, step=number)
        targets = Targets(mask.token_ids, zeros, positions, zeros, mask.positions, mask.labels, None)
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast(device.type, torch.bfloat16):
            total, _ = loss(targets, targets.counts())
        total.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()

    for number in range(3):
        step(number)
    wait(device)
    begun = time.perf_counter()
    for number in range(steps):
        step(number)
    wait(device)
    rate = batch * seq_len * steps / (time.perf_counter() - begun)
    rows = [[f"one MLM step after another, {size}, {batch} x {seq_len}, bfloat16", f"{rate:,.0f} tokens/s"]]
    if device.type == "cuda":
        rows.append(["peak memory of it", f"{torch.cuda.max_memory_allocated(device) / 2**30:.1f} GiB"])
    return rows


def masks(device: torch.device, quick: bool) -> list[list[str]]:
    token_ids = torch.randint(5, 30522, (32 if quick else 256, 128), device=device)
    maskable = token_ids > 0
    for number in range(3):
        generate_random_mask(token_ids, maskable, mask_id=4, vocab_size=30522, step=number)
    wait(device)
    if device.type == "cuda":
        torch.cuda.set_sync_debug_mode("error")  # any wait for the device raises from here
    begun = time.perf_counter()
    for number in range(20):
        generate_random_mask(token_ids, maskable, mask_id=4, vocab_size=30522, step=number)
    if device.type == "cuda":
        torch.cuda.set_sync_debug_mode("default")
    wait(device)
    taken = 1000 * (time.perf_counter() - begun) / 20
    return [[f"drawing a mask, {token_ids.shape[0]} x 128, without waiting for the device", f"{taken:.2f} ms"]]


def wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)


if __name__ == "__main__":
    main()
