"""The code blocks, links and anchors of the documents: README.md and the pages of the site."""

import re
from pathlib import Path
from typing import NamedTuple, Optional

import pytest
from bindings import ROOT

PAGES = sorted((ROOT / "docs").rglob("*.md"))
# A comment before a block names the module that the block needs beyond gpuvec's own, or says why
# the block does not run here.
BLOCK = re.compile(
    r"(?:^<!-- (?:needs (?P<needs>\w+)|not run: (?P<reason>[^\n]+)) -->\n)?"
    r"^(?P<fence>```+)(?P<language>[^\n]*)\n(?P<code>.*?)^(?P=fence)$",
    flags=re.DOTALL | re.MULTILINE,
)


class Block(NamedTuple):
    """A code block of a document."""

    language: str
    code: str
    needs: Optional[str]
    reason: Optional[str]
    line: int


def all_blocks(document: Path) -> list[Block]:
    """Returns a document's fenced blocks."""
    text = document.read_text() if document.exists() else ""
    return [
        Block(
            match["language"],
            match["code"],
            match["needs"],
            match["reason"],
            text[: match.start("code")].count("\n"),
        )
        for match in BLOCK.finditer(text)
    ]


def blocks(document: Path, language: str) -> list:
    """Returns the blocks in a language that run, each with what it needs, named by their lines."""
    name = document.relative_to(ROOT)
    return [
        pytest.param(block.code, block.needs, id=f"{name}:{block.line}")
        for block in all_blocks(document)
        if block.language == language and not block.reason
    ]


def without_code(text: str) -> str:
    """Returns a document without its blocks and quoted code."""
    return re.sub(r"`[^`\n]*`", "", BLOCK.sub("", text))


def links(document: Path) -> list[str]:
    """Returns the targets of a document's links and images."""
    return re.findall(r"\]\(([^()\s]+)\)", without_code(document.read_text()))


def anchors(document: Path) -> set[str]:
    """Returns the anchors of a document's headings, as GitHub and MyST name them."""
    text = BLOCK.sub("", document.read_text())
    headings = re.findall(r"^#+ (.*)$", text, flags=re.MULTILINE)
    titles = [re.sub(r"\]\([^)]*\)", "", heading).lower() for heading in headings]
    return {re.sub(r"[^\w\- ]", "", title).replace(" ", "-") for title in titles}
