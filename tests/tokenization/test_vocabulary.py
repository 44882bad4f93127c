"""vocab.txt: the line number is the id, whatever stands in the lines."""

import pytest

from anaume.errors import TokenizerError
from anaume.tokenization import Tokenizer, first_difference, read_vocab, write_vocab
from anaume.tokenization.vocabulary import first_vocab_difference, vocab_notes
from helpers import SPECIALS, make_tokenizer, public_data


def written(path, entries, end="\n"):
    path.write_bytes("".join(entry + end for entry in entries).encode())
    return path


@pytest.mark.parametrize(
    "odd", ["\u2028", "\u2029", "\x85", "\x0b", "\x0c", "\x1c", "\r", "\u3000", " ", "", " z\u3000"]
)
def test_only_a_line_end_ends_a_line(tmp_path, odd):
    """VOC-01: a separator, a blank or an empty line is one entry; later ids never shift; saved byte for byte."""
    path = written(tmp_path / "vocab.txt", [*SPECIALS, "x", odd, "y"])
    tokenizer = Tokenizer.from_vocab(path)
    assert (tokenizer.token_to_id("x"), tokenizer.token_to_id("y"), tokenizer.vocab_size) == (5, 7, 8)
    tokenizer.save(tmp_path / "saved")
    assert (tmp_path / "saved" / "vocab.txt").read_bytes() == path.read_bytes()
    again = Tokenizer.from_directory(tmp_path / "saved")
    assert again.vocab == tokenizer.vocab
    assert again.encode("x y").token_ids == [2, 5, 7, 3]


def test_an_empty_line_is_noted():
    assert vocab_notes(["a", ""]) == ("line 2 of the vocabulary is empty; it keeps its id 1, which no text can give",)
    assert vocab_notes(["a"]) == ()


def test_crlf_and_a_missing_last_line_end(tmp_path):
    assert read_vocab(written(tmp_path / "crlf.txt", ["a", "b"], end="\r\n")) == ["a", "b"]
    (tmp_path / "short.txt").write_bytes(b"a\nb")
    assert read_vocab(tmp_path / "short.txt") == ["a", "b"]


@pytest.mark.parametrize("repeated", ["x", ""])
def test_duplicates_are_refused_naming_both_lines(tmp_path, repeated):
    """VOC-03: len(dict) and the highest id must not differ."""
    path = written(tmp_path / "vocab.txt", [*SPECIALS, repeated, repeated, "y"])
    with pytest.raises(TokenizerError, match=r"vocab\.txt: lines 6 and 7 are both"):
        read_vocab(path)


@pytest.mark.parametrize("missing", SPECIALS)
def test_a_missing_special_token_is_named(tmp_path, missing):
    """VOC-03: at load, not at the first text that needs it."""
    path = written(tmp_path / "vocab.txt", [token for token in SPECIALS if token != missing] + ["a"])
    with pytest.raises(TokenizerError) as error:
        Tokenizer.from_vocab(path)
    assert f"lacks the special token {missing}" in str(error.value)


def test_other_special_names_are_accepted_and_saved(tmp_path):
    """VOC-03: <s> </s> <unk> <pad> <mask>."""
    path = written(tmp_path / "vocab.txt", ["<s>", "<pad>", "</s>", "<unk>", "a", "<mask>"])
    names = {
        "cls_token": "<s>",
        "pad_token": "<pad>",
        "sep_token": "</s>",
        "unk_token": "<unk>",
        "mask_token": "<mask>",
    }
    tokenizer = Tokenizer.from_vocab(path, **names)
    assert tokenizer.encode("a b", "a").token_ids == [0, 4, 3, 2, 4, 2]
    tokenizer.save(tmp_path / "saved")
    again = Tokenizer.from_directory(tmp_path / "saved")
    assert again.fingerprint == tokenizer.fingerprint
    assert (again.pad_id, again.mask_id) == (1, 5)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"\xef\xbb\xbf[PAD]\n", "byte order mark"),
        (b"a\n\xff\n", "not UTF-8 at byte 2"),
        (None, "no vocabulary file at"),
    ],
)
def test_unreadable_files_are_refused(tmp_path, content, message):
    path = tmp_path / "vocab.txt"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(TokenizerError) as error:
        read_vocab(path)
    assert message in str(error.value)
    assert str(path) in str(error.value)


@pytest.mark.parametrize("name", ["a\0b", "a\ud800b"])
def test_what_is_no_path_is_told(name):
    """TOK-14"""
    with pytest.raises(TokenizerError, match="is no path"):
        Tokenizer.from_vocab(name)
    with pytest.raises(TokenizerError, match="is not readable as JSON"):
        Tokenizer.from_file(name)


def test_an_entry_with_a_line_end_cant_be_written(tmp_path):
    with pytest.raises(TokenizerError, match="holds a line end"):
        write_vocab(["a\nb"], tmp_path / "vocab.txt")
    assert not (tmp_path / "vocab.txt").exists()


def test_entries_must_be_strings():
    with pytest.raises(TokenizerError, match="entry 5 must be a string; got int"):
        make_tokenizer([3])


def test_an_entry_no_file_can_hold_is_refused():
    """TOK-14: at once, not when the tokenizer is saved."""
    with pytest.raises(TokenizerError, match=r"entry 6, 'b.ud800', holds a lone surrogate"):
        make_tokenizer(["é", "b\ud800"])


def test_first_difference():
    """The drift to fear: the same size, other words."""
    one, other = make_tokenizer("a b c"), make_tokenizer("a x c")
    assert first_difference(one, other) == (6, "b", "x")
    assert first_difference(one, one) is None
    assert first_difference(one, make_tokenizer("a b")) == (7, "c", None)
    assert first_vocab_difference([], ["a"]) == (0, None, "a")


@pytest.mark.real
@pytest.mark.parametrize(
    ("name", "size"),
    [
        ("bert-base-uncased-vocab.txt", 30_522),
        ("bert-base-cased-vocab.txt", 28_996),
        ("bert-base-japanese-v3/vocab.txt", 32_768),
        ("deberta-v2-large-japanese-char-wwm/vocab.txt", 22_012),
        ("chinese-roberta-wwm-ext-large/vocab.txt", 21_128),
    ],
)
def test_published_vocabularies_are_written_byte_for_byte(tmp_path, name, size):
    path = public_data(f"vocab/{name}")
    vocab = read_vocab(path)
    write_vocab(vocab, tmp_path / "vocab.txt")
    assert len(vocab) == size
    assert (tmp_path / "vocab.txt").read_bytes() == path.read_bytes()
