"""BERT on one page: from a text to tokens, vectors, a filled blank and a class. Runs on a CPU in a few seconds.

text -> tokens -> token IDs -> input embeddings -> blocks -> head -> loss / word / class
"""

from dataclasses import replace

import torch

from anaume import EncoderConfig, HeadConfig, Tokenizer, generate_random_mask, mlm_loss
from anaume.model import Bert, Encoder, classification_loss, nsp_loss

torch.manual_seed(0)
torch.set_num_threads(1)  # matrices this small gain nothing from more

# Our whole world: pairs of sentences that follow each other, about two topics.
PAIRS = [
    ("my dog is cute", "he likes playing in the garden"),
    ("the cat sleeps all day", "she wakes up to eat fish"),
    ("a small bird sings", "it builds a nest in the tree"),
    ("our horse runs fast", "he carries children on his back"),
    ("dark clouds cover the sky", "soon the rain will fall"),
    ("the snow is deep", "we build a man of snow"),
    ("a warm wind blows", "it dries the wet grass"),
    ("thunder rolls over the hills", "the storm comes closer"),
]
TOPICS = ("animals", "weather")  # the first four pairs, the last four

# 1. Text -> tokens -> token IDs. Rare words are cut into pieces; [CLS] opens the row, [SEP] ends each sentence.
tokenizer = Tokenizer.train([text for pair in PAIRS for text in pair], vocab_size=220, min_frequency=1)
encoding = tokenizer.encode(*PAIRS[0])
print("tokens   ", *encoding.tokens)
print("token IDs", *encoding.token_ids)
print("segments ", *encoding.segment_ids)

# 2. Three tables, summed. "mlm" fills blanks, "nsp" judges pairs, "topic" is the task of section 7.
config = EncoderConfig(
    vocab_size=tokenizer.vocab_size,
    hidden_size=64,
    num_hidden_layers=2,
    num_attention_heads=4,
    max_position_embeddings=32,
)
topic = HeadConfig(kind="classification", labels=TOPICS, head_layers=2)
model = Bert(config, {"mlm": HeadConfig(kind="mlm"), "nsp": HeadConfig(kind="nsp"), "topic": topic}, seed=0).eval()

token_ids = torch.tensor([encoding.token_ids])
segment_ids = torch.tensor([encoding.segment_ids])
position_ids = torch.arange(token_ids.shape[1])
tables = model.embeddings
vectors = tables(token_ids, segment_ids)
by_hand = tables.layer_norm(
    tables.token_embeddings(token_ids)  # what the token is
    + tables.segment_embeddings(segment_ids)  # which sentence it stands in
    + tables.position_embeddings(position_ids)  # where it stands
)
print(
    "input embeddings", tuple(vectors.shape), "= LayerNorm(token + segment + position):", torch.equal(vectors, by_hand)
)

# 3. Blocks mix the tokens; the shape stays. Whoever can change the vector of token 1 is seen by it.
gpt = Encoder(replace(config, causal=True)).eval()  # GPT is this with causal=True
for name, encoder in (("BERT", model.encoder), ("GPT", gpt)):
    given = vectors.detach().requires_grad_()
    mixed = encoder(given, attention_mask=None).last_hidden_state
    (influence,) = torch.autograd.grad(mixed[0, 1].square().sum(), given)
    seen = (influence[0].abs().amax(dim=1) > 0).int().tolist()
    print(f"{name}: blocks {tuple(mixed.shape)}, token 1 sees", *seen)


# 4. A batch: rows of one length, filled up with [PAD]; the mask tells real tokens from padding.
def batch_of(pairs: list[tuple[str, ...]]) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return token_ids, segment_ids and attention_mask, each (batch, seq_len)."""
    rows = [tokenizer.encode(*pair) for pair in pairs]
    width = max(len(row.token_ids) for row in rows)

    def filled(values: list[list[int]], filling: int) -> torch.Tensor:
        return torch.tensor([row + [filling] * (width - len(row)) for row in values])

    real = filled([[1] * len(row.token_ids) for row in rows], 0).bool()
    ids = filled([row.token_ids for row in rows], tokenizer.pad_id)
    return ids, filled([row.segment_ids for row in rows], 0), real


# Half of the pairs are real (0), in the other half the second sentence belongs elsewhere (1).
firsts, seconds = zip(*PAIRS, strict=True)
token_ids, segment_ids, attention_mask = batch_of(PAIRS + list(zip(firsts, seconds[3:] + seconds[:3], strict=True)))
is_random = torch.tensor([0] * len(PAIRS) + [1] * len(PAIRS))
special = torch.tensor([tokenizer.cls_id, tokenizer.sep_id])
maskable = attention_mask & ~torch.isin(token_ids, special)
print("batch", tuple(token_ids.shape), "padding", int((~attention_mask).sum()))


# 5. The loss: hide 15 % of the tokens (80 % [MASK], 10 % another token, 10 % left), guess them; and guess the pairs.
def pretraining_loss(step: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Return (mlm loss, nsp loss) of the batch under the random mask of a step: a fresh one each."""
    masked = generate_random_mask(
        token_ids, maskable, mask_id=tokenizer.mask_id, vocab_size=config.vocab_size, step=step
    )
    states = model(masked.token_ids, attention_mask, segment_ids).last_hidden_state
    words = model.head_logits("mlm", states, attention_mask, masked.positions)  # only where something was hidden
    pairs = model.head_logits("nsp", states, attention_mask)
    return mlm_loss(words, masked.labels), nsp_loss(pairs, is_random)


mlm, nsp = pretraining_loss(step=0)
print(f"before: mlm {mlm:.3f} (ln V = {torch.tensor(config.vocab_size).log():.3f}), nsp {nsp:.3f} (ln 2 = 0.693)")

# 6. Training is this step, many times.
optimizer = torch.optim.AdamW(model.parameters(), lr=1.5e-3)
model.train()
for step in range(300):
    mlm, nsp = pretraining_loss(step)
    optimizer.zero_grad()
    (mlm + nsp).backward()
    optimizer.step()
model.eval()
mlm, nsp = pretraining_loss(step=300)
print(f"after: mlm {mlm:.3f}, nsp {nsp:.3f}")

# Fill in the blank: 穴埋め, anaume.
blank = tokenizer.encode(*PAIRS[0])
place = blank.tokens.index("dog")
ids = torch.tensor([blank.token_ids]).index_fill(1, torch.tensor([place]), tokenizer.mask_id)
states = model(ids, None, torch.tensor([blank.segment_ids])).last_hidden_state
guess = model.head_logits("mlm", states, None, torch.tensor([[place]])).argmax()
print("my [MASK] is cute ->", tokenizer.vocab[guess])

# 7. [CLS] -> MLP -> classes: the same encoder, another head.
token_ids, segment_ids, attention_mask = batch_of([(text,) for pair in PAIRS for text in pair])
labels = torch.tensor([0] * 8 + [1] * 8)
optimizer = torch.optim.AdamW(model.parameters(), lr=5e-4)
for _ in range(60):
    states = model.train()(token_ids, attention_mask, segment_ids).last_hidden_state  # [B, T, D]
    logits = model.head_logits("topic", states, attention_mask)  # [B, T, D] -> [B, D] -> [B, classes]
    loss = classification_loss(logits, labels)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print("classes", tuple(states.shape), "->", tuple(states[:, 0].shape), "->", f"{tuple(logits.shape)}, loss {loss:.3f}")

states = model.eval()(token_ids, attention_mask, segment_ids).last_hidden_state
guesses = model.head_logits("topic", states, attention_mask).argmax(dim=-1)
print(PAIRS[0][0], "->", TOPICS[guesses[0]])
print("right:", int((guesses == labels).sum()), "of", len(labels))
