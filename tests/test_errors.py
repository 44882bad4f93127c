import pickle

import pytest

from anaume import errors
from anaume.errors import AnaumeError, AnaumeWarning, BundleError, MissingExtra, SettingsError, nearest


def test_the_tree_is_the_one_drawn_in_the_docstring() -> None:
    wrong_values = ("SettingsError", "DataError", "TokenizerError", "BundleError")
    for name in wrong_values:
        kind = getattr(errors, name)
        assert kind.__mro__[1:3] == (AnaumeError, ValueError)
        assert name in (errors.__doc__ or "")
    assert issubclass(MissingExtra, AnaumeError)
    assert issubclass(MissingExtra, ImportError)
    assert issubclass(AnaumeWarning, UserWarning)
    assert not issubclass(AnaumeWarning, AnaumeError)

    made_here = {
        name
        for name, value in vars(errors).items()
        if isinstance(value, type) and issubclass(value, Exception) and value.__module__ == errors.__name__
    }
    assert made_here == {*wrong_values, "AnaumeError", "MissingExtra", "AnaumeWarning"}


def test_one_except_catches_everything_raised_on_purpose() -> None:
    for error in (SettingsError("a"), BundleError("b"), MissingExtra("c", "ja")):
        with pytest.raises(AnaumeError):
            raise error


def test_a_missing_extra_names_the_install_line() -> None:
    message = str(MissingExtra("Japanese words", "ja"))
    assert message.startswith("Japanese words needs an optional dependency")
    assert message.endswith("pip install 'anaume[ja]'")


@pytest.mark.parametrize("error", [SettingsError("wrong"), BundleError("wrong"), MissingExtra("plots", "plots")])
def test_an_error_survives_the_way_home_from_another_process(error: AnaumeError) -> None:
    back = pickle.loads(pickle.dumps(error))
    assert type(back) is type(error)
    assert str(back) == str(error)


def test_nearest_hints_only_at_what_is_close() -> None:
    known = ["hidden_size", "vocab_size", "causal"]
    assert nearest("hiden_size", known) == " (did you mean 'hidden_size'?)"
    assert nearest("casual", iter(known)) == " (did you mean 'causal'?)"
    assert nearest("zzz", known) == ""
    assert nearest("hidden_size", []) == ""
