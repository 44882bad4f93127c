"""A BERT of your own: text -> corpus -> pretraining -> filled blanks.

python examples/own_bert.py FOLDER-OF-TEXTS OUT [MINUTES]
"""

import sys
from pathlib import Path

import anaume

texts, out, minutes = sys.argv[1], Path(sys.argv[2]), float(sys.argv[3]) if len(sys.argv) > 3 else 5.0
out.mkdir(exist_ok=True)

summary = anaume.prepare_corpus(texts, out / "corpus", vocab_size=8000)
print(f"{summary.train.documents:,} documents, {summary.train.tokens:,} tokens to train on")

settings = anaume.PretrainSettings().with_values([f"run.minutes={minutes}", "model.dropout=0.0"])
result = anaume.pretrain(out / "corpus", out / "run", settings)  # the same line again goes on where it was killed
print(f"{result.steps:,} steps, {result.tokens:,} tokens, {result.scores}")

bundle = anaume.load(result.bundle)
for guess in bundle.fill("the [MASK] was too small", top_k=3).blanks[0].guesses:
    print(f"{guess.probability:.3f}  {guess.text}")
