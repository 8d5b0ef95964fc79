"""The tutorial and the pages of the gallery are notebooks, which `make docs` runs."""

import re
from pathlib import Path

import pytest
from bindings import ROOT

GALLERY = ROOT / "docs/gallery"
PAGES = sorted(page for page in GALLERY.glob("*.md") if page.stem != "index")
CELL = re.compile(r"^```\{code-cell\} ipython3\n(.*?)^```$", re.DOTALL | re.MULTILINE)


def names(pattern: str, text: str) -> list[str]:
    """Returns the sorted matches of a pattern."""
    return sorted(re.findall(pattern, text, re.MULTILINE))


def test_every_page_has_a_card_with_its_thumbnail():
    index, stems = (GALLERY / "index.md").read_text(), [page.stem for page in PAGES]
    assert len(PAGES) >= 6
    assert names(r"^:link: (\w+)$", index) == stems
    assert names(r"^:img-bottom: thumbnails/(\w+)\.webp$", index) == stems
    assert sorted(picture.stem for picture in (GALLERY / "thumbnails").iterdir()) == stems
    assert names(r"^(\w+)$", index.split(":hidden:")[1]) == stems


@pytest.mark.parametrize(
    "page", [*PAGES, ROOT / "docs/tutorial/tutorial.md"], ids=lambda page: page.stem
)
def test_every_page_is_a_notebook_that_draws_and_checks_its_results(page: Path):
    text = page.read_text()
    assert "format_name: myst" in text and f"<{page.stem}.ipynb>`" in text
    cells = CELL.findall(text)
    assert len(cells) == text.count("```{code-cell}")
    code = "\n".join(cells)
    compile(code, page.name, "exec")
    assert "assert " in code and ("plt.subplots" in code or "plt.figure" in code)
