"""Cosine similarity of vectors, kept within its range."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from anaume.errors import DataError, SettingsError


def similarity(a: npt.ArrayLike, b: npt.ArrayLike) -> npt.NDArray[np.float32]:
    """Return the cosine similarity of every vector of `a` with every vector of `b`.

    a        (n, size) or (size,)
    b        (m, size) or (size,)
    returns  (n, m) float32 in -1 .. 1 (rounding would give 1.0000002 for a vector with itself); a zero vector has
             similarity 0 with everything

    Raises SettingsError (a ValueError) for other shapes, DataError for a vector that is not finite.
    """
    left, right = _array("a", a), _array("b", b)
    if left.ndim != 2 or right.ndim != 2 or left.shape[1] != right.shape[1]:
        raise SettingsError(f"vectors must be (n, size) and (m, size) of one size; got {left.shape} and {right.shape}")
    for name, vectors in (("a", left), ("b", right)):
        broken = np.flatnonzero(~np.isfinite(vectors).all(axis=1))
        if len(broken):
            more = f", nor are {len(broken) - 1} more rows" if len(broken) > 1 else ""
            raise DataError(f"row {broken[0]} of {name} is not finite{more}")
    cosines: npt.NDArray[np.float32] = np.clip(_unit(left) @ _unit(right).T, -1.0, 1.0)
    return cosines


def _array(name: str, vectors: npt.ArrayLike) -> npt.NDArray[np.float32]:
    try:
        return np.atleast_2d(np.asarray(vectors, dtype=np.float32))
    except (TypeError, ValueError, RuntimeError) as error:  # of torch: a tensor with a gradient, or in bfloat16
        raise SettingsError(f"{name} must be vectors of one size, as an array of real numbers: {error}") from error


def _unit(vectors: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    with np.errstate(over="ignore"):
        lengths: npt.NDArray[np.float32] = np.linalg.norm(vectors, axis=1, keepdims=True).astype(np.float32)
    # Where squares leave the range of float32, a vector is first brought to size 1.
    odd = np.flatnonzero((lengths < 1e-15) | (lengths == np.inf))
    if len(odd):
        largest = np.abs(vectors[odd]).max(axis=1, keepdims=True, initial=0.0)
        vectors = vectors.copy()
        largest[largest == 0.0] = 1.0
        vectors[odd] /= largest
        lengths[odd] = np.linalg.norm(vectors[odd], axis=1, keepdims=True).astype(np.float32)
    lengths[lengths == 0.0] = 1.0
    unit: npt.NDArray[np.float32] = vectors / lengths
    return unit
