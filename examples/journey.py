"""The whole way: raw text -> vocabulary and corpus -> pretraining -> fine-tuning -> predictions. A minute on one core.

python examples/japanese_texts.py TEXTS
python examples/journey.py TEXTS OUT
"""

import sys
from pathlib import Path

import anaume

texts, out = Path(sys.argv[1]), Path(sys.argv[2])
out.mkdir(parents=True, exist_ok=True)

# 1. Text without labels -> a vocabulary of its own, and a corpus with a held-out part. Japanese is found by its look.
corpus = anaume.prepare_corpus(texts / "raw.txt", out / "corpus", vocab_size=2000, layout="lines")
print(f"corpus: {corpus.train.documents:,} documents, {corpus.train.tokens:,} tokens")

# 2. Pretraining: hide words, guess them. Small rows and many masks suit a small model and a short time.
recipe = ["model.size=tiny", "model.dropout=0.0", "data.seq_len=64", "objective.mask_rate=0.4"]
settings = anaume.PretrainSettings().with_values([*recipe, "run.steps=300", "run.batch_rows=16"])
run = anaume.pretrain(out / "corpus", out / "run", settings)
print(f"pretraining: {run.steps} steps, held-out loss {run.scores['held_out_loss']:.2f} nats a token")

# 3. Labelled texts -> a model of the task: two seeds, the better one kept, the score with its spread.
settings = anaume.FinetuneSettings().with_values(["run.epochs=15", "optimizer.learning_rate=1e-3"])
report = anaume.finetune(
    "classification",
    texts / "tickets-train.tsv",
    out / "model",
    bundle=anaume.load(run.bundle),
    dev=texts / "tickets-dev.tsv",
    settings=settings,
    seeds=2,
)
print(f"fine-tuning: {report.metric} of each seed", *(f"{seed.scores[report.metric]:.2f}" for seed in report.seeds))

# 4. Predictions: new texts, and how much of each the model saw.
model = anaume.load(report.folder)
for text in ("荷物の箱がつぶれていました。", "パスワードを忘れてログインができません。"):
    (prediction,) = model.predict([text])
    sure = prediction.probabilities[prediction.label]
    print(f"{prediction.label} {sure:.2f} (seen {prediction.coverage:.0%})  {text}")
