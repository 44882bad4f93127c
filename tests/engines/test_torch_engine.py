import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch

from anaume.config import EmbeddingConfig
from anaume.data import pad, pad_to
from anaume.engines import Batch, TorchEngine
from anaume.engines.torch_engine import pick_device
from anaume.errors import SettingsError
from tiny_models import every_head, tiny_bert

ROWS = [[2, 7, 9, 3], [2, 3], [2, 11, 12, 13, 14, 15, 3], [2, 30, 3]]
MEAN = EmbeddingConfig(pooling="mean", normalize=True, max_length=40)


@pytest.fixture(autouse=True)
def one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def batch(rows=ROWS, seq_len=None):
    return Batch(*pad(rows, 0, seq_len=seq_len))


def close(one, other):
    assert one.shape == other.shape
    return np.abs(one - other).max() <= 1e-5 * max(1.0, np.abs(other).max())


@pytest.mark.parametrize("pooling", ["cls", "mean", "max", "mean_sqrt"])
@pytest.mark.parametrize("normalize", [True, False])
def test_it_is_encoder_pooling_and_normalisation(pooling, normalize):
    model = tiny_bert()
    vectors = TorchEngine(model, EmbeddingConfig(pooling=pooling, normalize=normalize)).embed(batch())
    assert vectors.dtype == np.float32
    for row, vector in zip(ROWS, vectors, strict=True):
        with torch.no_grad():
            states = model(torch.tensor([row]), None).last_hidden_state[0]
        wanted = {
            "cls": states[0],
            "mean": states.mean(0),
            "max": states.max(0).values,
            "mean_sqrt": states.sum(0) / len(row) ** 0.5,
        }[pooling]
        wanted = wanted / wanted.norm() if normalize else wanted
        assert close(vector, wanted.numpy())


def test_no_pooling_is_the_mean():
    model = tiny_bert()
    mean = TorchEngine(model, EmbeddingConfig(pooling="mean")).embed(batch())
    assert np.array_equal(TorchEngine(model, EmbeddingConfig()).embed(batch()), mean)


def test_padding_changes_nothing():
    engine = TorchEngine(tiny_bert(), MEAN)
    narrow = engine.embed(batch())
    wide = engine.embed(Batch(*pad_to(*pad(ROWS, 0), 40, 0)))
    assert close(wide, narrow)
    attended = engine.embed(Batch(pad(ROWS, 0, seq_len=40)[0], np.ones((len(ROWS), 40), dtype=bool)))
    assert not close(attended, narrow), "else the test could not see a leak"


def test_a_row_without_padding_is_the_same_with_and_without_a_mask():
    engine = TorchEngine(tiny_bert(), MEAN)
    alone = np.concatenate([engine.embed(batch([row])) for row in ROWS])
    assert close(engine.embed(batch()), alone)


def test_segments_count():
    engine = TorchEngine(tiny_bert(), MEAN)
    ids, mask = pad(ROWS, 0)
    zeros, ones = (engine.embed(Batch(ids, mask, segment_ids=np.full_like(ids, side))) for side in (0, 1))
    assert np.array_equal(engine.embed(Batch(ids, mask)), zeros)
    assert not close(ones, zeros)


def test_the_pooling_mask_leaves_tokens_out_of_the_pooling_alone():
    engine = TorchEngine(tiny_bert(), EmbeddingConfig(pooling="mean"))
    given = batch()
    counted = given.attention_mask.copy()
    counted[:, :1] = False
    vectors = engine.embed(Batch(given.token_ids, given.attention_mask, pooling_mask=counted))
    for row, vector in zip(ROWS, vectors, strict=True):
        states = engine.hidden_states(batch([row])).last_hidden_state[0]
        assert close(vector, states[1:].mean(0).numpy())


def test_hidden_states_are_every_layer_in_float32():
    for precision in ("float32", "bfloat16"):
        engine = TorchEngine(tiny_bert(), MEAN, precision=precision)
        output = engine.hidden_states(batch(), keep_attentions=True)
        assert len(output.hidden_states) == 3
        assert {(state.dtype, tuple(state.shape)) for state in output.hidden_states} == {(torch.float32, (4, 7, 16))}
        assert torch.equal(output.hidden_states[-1], output.last_hidden_state)
        assert [tuple(weights.shape) for weights in output.attentions] == [(4, 2, 7, 7)] * 2
        assert engine.hidden_states(batch()).attentions is None


# -- the caller's model: eval always, never touched, always up to date (NUM-06) ----------------------------------------


@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_dropout_is_off_and_the_callers_mode_stays(precision):
    model = tiny_bert(hidden_dropout=0.5, attention_dropout=0.5)
    quiet = TorchEngine(model, MEAN, precision=precision).embed(batch())
    model.train()
    model.encoder.layers[0].eval()  # a mixture, as when only a part is trained
    modes = {name: module.training for name, module in model.named_modules()}
    engine = TorchEngine(model, MEAN, precision=precision)
    assert np.array_equal(engine.embed(batch()), quiet)
    assert np.array_equal(engine.embed(batch()), quiet)
    assert {name: module.training for name, module in model.named_modules()} == modes


def train_step(model, **options):
    model.train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01, **options)
    output = model(torch.tensor([ROWS[0]]), None)
    output.last_hidden_state.square().sum().backward()
    optimizer.step()


@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
@pytest.mark.parametrize("options", [{}, {"foreach": True}, {"fused": True}], ids=str)
def test_trained_weights_are_seen_by_the_next_call(precision, options):
    model = tiny_bert()
    engine = TorchEngine(model, MEAN, precision=precision)
    before = engine.embed(batch())
    train_step(model, **options)
    after = engine.embed(batch())
    assert np.abs(after - before).max() > 1e-3
    assert np.array_equal(after, TorchEngine(model, MEAN, precision=precision).embed(batch()))
    train_step(model, **options)  # what embed did must not stand in the way of the next step
    assert np.abs(engine.embed(batch()) - after).max() > 1e-3


@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_loaded_and_replaced_weights_are_seen(precision):
    model, other = tiny_bert(), tiny_bert()
    with torch.no_grad():
        other.encoder.layers[1].attention.qkv.weight.mul_(1.5)
    wanted = TorchEngine(other, MEAN, precision=precision).embed(batch())
    engine = TorchEngine(model, MEAN, precision=precision)
    first = engine.embed(batch())
    model.load_state_dict(other.state_dict())
    assert np.array_equal(engine.embed(batch()), wanted)
    model.encoder.layers[1].attention.qkv.weight = torch.nn.Parameter(
        tiny_bert().encoder.layers[1].attention.qkv.weight
    )
    assert np.array_equal(engine.embed(batch()), first)


@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_changes_behind_torchs_back_are_seen(precision):
    model = tiny_bert()
    engine = TorchEngine(model, MEAN, precision=precision)
    before = engine.embed(batch())
    model.encoder.layers[0].feed_forward.expand.weight.data.mul_(1.5)  # .data counts no version up
    assert np.abs(engine.embed(batch()) - before).max() > 1e-3


@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_nothing_of_the_callers_model_changes(precision):
    model = tiny_bert(every_head())
    state = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    places = [tensor.data_ptr() for tensor in model.parameters()]
    TorchEngine(model, MEAN, precision=precision).embed(batch())
    assert all(torch.equal(tensor, state[name]) for name, tensor in model.state_dict().items())
    assert [tensor.data_ptr() for tensor in model.parameters()] == places
    assert all(parameter.requires_grad and parameter.grad is None for parameter in model.parameters())


def test_float32_on_the_same_device_shares_the_weights():
    model = tiny_bert()
    engine = TorchEngine(model, MEAN)
    engine.embed(batch())
    held = {tensor.data_ptr() for tensor in engine._twin.model.parameters()}
    assert held == {tensor.data_ptr() for tensor in model.parameters()}, "a second copy would double the memory"


def test_the_twin_is_made_once():
    engine = TorchEngine(tiny_bert(), MEAN, precision="bfloat16")
    engine.embed(batch())
    twin = engine._twin
    engine.embed(batch())
    assert engine._twin is twin


@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_a_model_made_under_inference_mode_works(precision):
    with torch.inference_mode():
        model = tiny_bert()
    assert TorchEngine(model, MEAN, precision=precision).embed(batch()).shape == (4, 16)


# -- precision, threads, devices ---------------------------------------------------------------------------------------


def test_bfloat16_is_close_and_is_really_used():
    model = tiny_bert()
    exact = TorchEngine(model, MEAN).embed(batch())
    rounded = TorchEngine(model, MEAN, precision="bfloat16").embed(batch())
    assert rounded.dtype == np.float32
    assert 1e-5 < np.abs(rounded - exact).max() < 0.05
    assert (rounded * exact).sum(axis=1).min() > 0.999
    assert next(model.parameters()).dtype == torch.float32


@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_sixteen_threads_agree_with_one_also_on_the_first_call(precision):
    model = tiny_bert()
    wanted = TorchEngine(model, MEAN, precision=precision).embed(batch())
    engine, ready = TorchEngine(model, MEAN, precision=precision), threading.Barrier(16)

    def run(_):
        ready.wait()  # all find the engine without its twin
        return [engine.embed(batch()) for _ in range(5)]

    with ThreadPoolExecutor(16) as pool:
        results = [vectors for many in pool.map(run, range(16)) for vectors in many]
    assert all(np.array_equal(vectors, wanted) for vectors in results)


def test_an_id_outside_the_table_is_refused():
    with pytest.raises(SettingsError, match="50"):
        TorchEngine(tiny_bert(), MEAN).embed(batch([[2, 50, 3]]))


def test_other_precisions_are_refused():
    with pytest.raises(SettingsError, match="float32, bfloat16; got 'float16'"):
        TorchEngine(tiny_bert(), MEAN, precision="float16")


@pytest.mark.parametrize("device", ["gpu", "cuda:99", "", "cpu:x", "meta", None, 2.5])
def test_a_device_that_is_not_there_is_refused(device):
    with pytest.raises(SettingsError, match="can't be used here") as refusal:
        pick_device(device)
    assert "\n" not in str(refusal.value)


def test_devices_have_names():
    assert pick_device("cpu").type == "cpu"
    assert TorchEngine(tiny_bert(), MEAN, device="cpu").device == "cpu"
    expected = "cuda" if torch.cuda.is_available() else "mps" if torch.backends.mps.is_available() else "cpu"
    assert pick_device("auto").type == expected
