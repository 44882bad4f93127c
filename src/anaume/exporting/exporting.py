"""A bundle into another form, with a certificate of what that costs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from anaume.bundle import Bundle
from anaume.bundle.directory import check_place
from anaume.bundle.exported import FORMS, Form
from anaume.bundle.files import some
from anaume.bundle.weights import not_finite
from anaume.data.labelled import TextExample
from anaume.errors import BundleError, SettingsError, nearest
from anaume.exporting.certificate import Certificate
from anaume.exporting.graphs import export_graphs
from anaume.exporting.int8 import Int8Wanted
from anaume.exporting.int8_certificate import Int8Bounds
from anaume.exporting.static import export_static


def export_bundle(
    bundle: Bundle,
    out: str | Path,
    *,
    to: Form,
    dimensions: int | None = None,
    texts: Sequence[str] = (),
    pairs: Sequence[TextExample] = (),
    int8: bool = False,
    bounds: Int8Bounds | None = None,
    force: bool = False,
    overwrite: bool = False,
) -> Certificate:
    """Save a bundle in another form as the directory `out`, which `anaume.load` opens, and return its certificate.

    to          "onnx", "openvino": graphs of text vectors and every head (`export_graphs`); "static": one vector a
                token, no encoder (`export_static`)
    dimensions  numbers a static vector
    texts       of your domain, for a static export: frequencies, and the loss on those held out; for int8: one half
                calibrates and chooses layers, the other measures what int8 costs
    pairs       pairs with a number (STS), for a static export or int8: the score before and after
    int8        keep text vectors in int8, too (OpenVINO), with layers in higher precision where the loss asks for it;
                `anaume.load(out, precision="int8")` takes them
    bounds      of int8: mean and minimum cosine to float32, points of the score; None = 0.995, 0.98, 0.3
    force       keep int8 that is over a bound: the export says so for ever
    overwrite   replace a bundle or an export that is there, but never the bundle itself: an export is no way back to it

    Raises SettingsError for wrong arguments, BundleError for a place where nothing can be saved, for weights that are
    NaN or infinite and for int8 that is over its bounds.
    """
    if to not in FORMS:
        raise SettingsError(f"to must be one of {', '.join(FORMS)}; got {to!r}{nearest(str(to), FORMS)}")
    if bundle.exported is not None:
        raise SettingsError(f"{bundle.parts.source} is an export itself; export the bundle it was made of")
    if to == "static" or int8:  # both are of one vector a text
        bundle.parts.require_one_vector()
    place = Path(out)
    if bundle.parts.source and place.resolve() == Path(bundle.parts.source).resolve():
        raise SettingsError(
            f"{place} is the bundle to be exported: the export would take the place of its weights; name another"
        )
    check_place(place)
    if not overwrite and place.is_dir() and any(place.iterdir()):
        raise SettingsError(f"{place} holds a bundle already; name another, or overwrite=True (--overwrite)")
    if broken := not_finite(bundle.model.state_dict()):
        raise BundleError(
            f"nothing was exported: these weights hold NaN or infinite values: {some(broken)}; go back to a sound "
            "checkpoint (the training diverged?)"
        )
    if int8:
        if to != "openvino":
            raise SettingsError(f"int8 is for OpenVINO: to='openvino' (--to openvino); got {to!r}")
        if dimensions is not None:
            raise SettingsError("dimensions is for a static export")
        wanted = Int8Wanted(texts=texts, pairs=pairs, bounds=bounds or Int8Bounds(), force=force)
        return export_graphs(bundle, place, to, wanted)
    if bounds is not None or force:
        raise SettingsError("bounds and force are for int8 (--int8)")
    if to != "static":
        given = {"dimensions": dimensions is not None, "texts": bool(texts), "pairs": bool(pairs)}
        if named := [name for name, there in given.items() if there]:
            raise SettingsError(
                f"{', '.join(named)} is for a static export or int8; an export to {to} is the bundle's own"
            )
        return export_graphs(bundle, place, to)
    return export_static(bundle, place, dimensions=dimensions, texts=texts, pairs=pairs)
