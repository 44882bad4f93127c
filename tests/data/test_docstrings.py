import sysconfig

import pytest

from anaume.data.docstrings import standard_library_paragraphs
from anaume.errors import DataError, SettingsError


@pytest.fixture(scope="module")
def paragraphs():
    return standard_library_paragraphs()


def test_thousands_of_paragraphs_each_once_and_long_enough(paragraphs):
    texts = [paragraph.text for paragraph in paragraphs]
    assert len(texts) > 8000
    assert len(set(texts)) == len(texts)
    assert min(map(len, texts)) >= 40
    assert not any("\n" in text or "  " in text or text.startswith(">>>") for text in texts)


def test_where_is_the_dotted_name_of_what_is_documented(paragraphs):
    timer = [paragraph for paragraph in paragraphs if paragraph.where == "threading.Timer"]
    assert any("specified number of seconds" in paragraph.text for paragraph in timer)
    assert any(paragraph.where == "json" for paragraph in paragraphs), "a package is named without __init__"


def test_the_tests_of_the_library_are_left_out(paragraphs):
    roots = {paragraph.where.split(".")[0] for paragraph in paragraphs}
    assert "test" not in roots
    assert not any(".tests." in paragraph.where or "idle_test" in paragraph.where for paragraph in paragraphs)


@pytest.fixture
def library(tmp_path, monkeypatch):
    def get_path(name):
        assert name == "stdlib"
        return str(tmp_path)

    monkeypatch.setattr(sysconfig, "get_path", get_path)
    return tmp_path


def test_paragraphs_in_order_of_files_and_places(library):
    (library / "b.py").write_text('"""Bee module text."""\nclass C:\n    """Twice said."""\n')
    (library / "a").mkdir()
    docstring = "One  line,\n        wrapped.\n  \n        Twice said.\n\n        >>> f()"
    (library / "a" / "__init__.py").write_text(f'if True:\n    async def f():\n        """{docstring}"""\n')
    for folder in ("test", "site-packages"):
        (library / folder).mkdir()
        (library / folder / "x.py").write_text('"""Not the library itself."""\n')
    found = standard_library_paragraphs(minimum=3)
    assert [(paragraph.where, paragraph.text) for paragraph in found] == [
        ("a.f", "One line, wrapped."),
        ("a.f", "Twice said."),
        ("b", "Bee module text."),
    ]
    assert [paragraph.text for paragraph in standard_library_paragraphs(minimum=15)] == [
        "One line, wrapped.",
        "Bee module text.",
    ]


def test_old_escapes_in_the_source_raise_no_warning(library):
    (library / "a.py").write_text('"""Some text."""\nx = "\\d"\n')
    assert len(standard_library_paragraphs(minimum=3)) == 1


def test_a_python_without_source_is_said(library):
    with pytest.raises(DataError, match="source is not in"):
        standard_library_paragraphs()
    with pytest.raises(SettingsError, match="minimum must be positive"):
        standard_library_paragraphs(minimum=0)
