from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from anaume.errors import BundleError
from anaume.exporting.crc32c import crc32c, unmasked
from anaume.exporting.sstable import Damaged, read_table
from anaume.exporting.tensor_bundle import TensorBundle, checkpoint_prefix
from tiny_google import Values, bitwise_crc, write_checkpoint


@pytest.fixture
def variables() -> dict[str, Values]:
    generator = np.random.default_rng(0)
    found: dict[str, Any] = {
        f"bert/layer_{number}/{name}": generator.standard_normal((number + 1, 3)).astype(np.float32)
        for number in range(12)
        for name in ("kernel", "bias")
    }
    return {**found, "global_step": np.array(1234), "empty": np.zeros((0, 3), np.float32)}


@pytest.mark.parametrize("size", [0, 1, 2, 63, 64, 65, 129, 1000, 4097])
def test_crc32c_is_the_definition_s_at_any_length(size: int) -> None:
    data = np.random.default_rng(size).bytes(size)
    assert crc32c(data) == bitwise_crc(data)
    assert crc32c(memoryview(data)) == crc32c(data)


def test_crc32c_of_published_examples_and_the_mask() -> None:
    # RFC 3720, B.4: 32 bytes of zeros, of ones, and 0 .. 31
    assert crc32c(bytes(32)) == 0x8A9136AA
    assert crc32c(b"\xff" * 32) == 0x62A8AB43
    assert crc32c(bytes(range(32))) == 0x46DD794E
    assert unmasked((((0x46DD794E >> 15) | (0x46DD794E << 17)) + 0xA282EAD8) & 0xFFFFFFFF) == 0x46DD794E


@pytest.mark.parametrize(("shards", "restart", "block"), [(1, 16, 99), (3, 1, 1), (2, 4, 5)])
def test_every_variable_comes_back_whatever_the_layout(
    variables: dict[str, Values], tmp_path: Path, shards: int, restart: int, block: int
) -> None:
    prefix = write_checkpoint(tmp_path / "model.ckpt", variables, shards=shards, restart=restart, block=block)
    bundle = TensorBundle(prefix)
    assert list(bundle.variables) == sorted(variables)
    assert len(bundle.files()) == shards + 1
    for name, values in variables.items():
        read = bundle.read(name)
        assert read.dtype == values.dtype
        assert np.array_equal(read, values)


def test_bfloat16_is_the_upper_half_of_float32(tmp_path: Path) -> None:
    given = np.array([[1.0, -2.5, 3.0e-20], [0.0, 65536.0, -1.0]], np.float32)
    bundle = TensorBundle(write_checkpoint(tmp_path / "m", {"w": given}, dtype="bfloat16"))
    assert bundle.variables["w"].dtype == "bfloat16"
    assert np.allclose(bundle.read("w"), given, rtol=2**-7)
    assert np.array_equal(bundle.read("w"), (given.view(np.uint32) >> 16 << 16).view(np.float32))


def test_a_checkpoint_is_found_by_any_of_its_files(variables: dict[str, Values], tmp_path: Path) -> None:
    prefix = write_checkpoint(tmp_path / "bert_model.ckpt", variables)
    for name in ("", ".index", ".meta", ".data-00000-of-00001"):
        assert checkpoint_prefix(f"{prefix}{name}") == prefix
    with pytest.raises(BundleError, match=r"other\.index is not there.*there is .*bert_model\.ckpt"):
        checkpoint_prefix(tmp_path / "other")
    (tmp_path / "old.ckpt").write_bytes(b"one file")
    with pytest.raises(BundleError, match="TensorFlow before"):
        checkpoint_prefix(tmp_path / "old.ckpt")


def test_any_changed_byte_of_the_index_is_told(variables: dict[str, Values], tmp_path: Path) -> None:
    prefix = write_checkpoint(tmp_path / "m", variables, block=50)
    index = prefix.with_name("m.index")
    whole = index.read_bytes()
    meaning = read_table(whole)
    footer = len(whole) - 48
    for place in [*range(0, footer, 37), *range(footer, len(whole), 3)]:
        index.write_bytes(whole[:place] + bytes([whole[place] ^ 0x10]) + whole[place + 1 :])
        try:
            # What no reader needs may change: the checksum of an empty block, blanks of the footer.
            assert read_table(index.read_bytes()) == meaning, place
        except (Damaged, IndexError):
            with pytest.raises(BundleError, match=r"m\.index"):
                TensorBundle(prefix)
    for size in (0, 10, 47, len(whole) // 2, len(whole) - 1):
        index.write_bytes(whole[:size])
        with pytest.raises(BundleError, match=r"m\.index: its last bytes"):
            TensorBundle(prefix)


def test_data_that_is_cut_changed_or_missing_is_told(variables: dict[str, Values], tmp_path: Path) -> None:
    prefix = write_checkpoint(tmp_path / "m", variables)
    bundle, data = TensorBundle(prefix), prefix.with_name("m.data-00000-of-00001")
    variable = bundle.variables["bert/layer_7/kernel"]
    whole = bytearray(data.read_bytes())
    whole[variable.offset + 5] ^= 1
    data.write_bytes(whole)
    with pytest.raises(BundleError, match="the checksum of bert/layer_7/kernel differs"):
        bundle.read(variable.name)
    bundle.read("bert/layer_7/bias")  # another one is whole
    data.write_bytes(whole[: variable.offset + 4])
    with pytest.raises(BundleError, match="ends within bert/layer_7/kernel: truncated"):
        bundle.read(variable.name)
    data.unlink()
    with pytest.raises(BundleError, match="can't be read: No such file or directory; the index names it"):
        bundle.read(variable.name)
