import numpy as np
import pytest
import torch

from anaume.bundle import similarity
from anaume.errors import DataError, SettingsError


def test_the_cosine_of_a_vector_with_itself_never_leaves_its_range():  # EMB-05
    vectors = np.random.default_rng(0).normal(size=(2000, 384)).astype(np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    assert max(float((row * row).sum()) for row in vectors) > 1.0, "else nothing would have to be clipped"
    cosines = similarity(vectors, vectors)
    assert cosines.max() <= 1.0
    assert cosines.min() >= -1.0
    assert np.diag(cosines).min() > 1 - 1e-6
    assert np.array_equal(cosines.argmax(axis=1), np.arange(2000)), "identical texts rank first"
    assert similarity(vectors, -vectors).min() >= -1.0


def test_length_does_not_count():
    a, b = np.array([[3.0, 4.0]]), np.array([[0.03, 0.04], [-30.0, -40.0], [4.0, -3.0]])
    assert similarity(a, b)[0].tolist() == pytest.approx([1.0, -1.0, 0.0], abs=1e-6)


def test_a_zero_vector_is_similar_to_nothing():
    cosines = similarity([[0.0, 0.0], [1.0, 0.0]], [[0.0, 0.0], [1.0, 0.0]])
    assert cosines.tolist() == [[0.0, 0.0], [0.0, 1.0]]


def test_one_vector_or_many_or_none():
    many = np.eye(3, 4, dtype=np.float64)
    assert similarity(many[0], many).shape == (1, 3)
    assert similarity(many, many[0]).shape == (3, 1)
    assert similarity([1, 0], [0, 1]).tolist() == [[0.0]]
    assert similarity(np.zeros((0, 4)), many).shape == (0, 3)
    assert similarity(many, many).dtype == np.float32


@pytest.mark.parametrize(("a", "b"), [(np.ones((2, 3)), np.ones((2, 4))), (np.ones((2, 3, 4)), np.ones((2, 4)))])
def test_other_shapes_are_refused(a, b):
    with pytest.raises(SettingsError, match="of one size"):
        similarity(a, b)


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_a_vector_that_is_not_finite_is_named(value):
    broken = np.ones((4, 2))
    broken[2, 1] = value
    with pytest.raises(DataError, match="row 2 of a is not finite"):
        similarity(broken, np.ones((1, 2)))
    with pytest.raises(DataError, match=r"row 2 of b is not finite$"):
        similarity(np.ones((1, 2)), broken)


@pytest.mark.parametrize("size", [3e38, 1e-12, 1e-30, 1e-44])
def test_very_long_and_very_short_vectors_have_a_direction_too(size):
    """Squares of such numbers are infinite or zero in float32."""
    vectors = np.array([[size, size], [size, -size], [1.0, 0.0]], dtype=np.float32)
    assert np.allclose(similarity(vectors, vectors[:1])[:, 0], [1.0, 0.0, 0.5**0.5], atol=1e-6)


@pytest.mark.parametrize(
    "wrong",
    [["a", "b"], [[1.0], [1.0, 2.0]], [1j, 2.0], torch.ones(2).bfloat16(), torch.ones(2).requires_grad_()],
)
def test_what_is_no_array_of_numbers_is_refused(wrong):
    with pytest.raises(SettingsError, match="b must be vectors of one size, as an array of real numbers"):
        similarity([1.0, 2.0], wrong)
