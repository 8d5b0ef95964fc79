"""The code blocks of the documents."""

import re
from pathlib import Path

import pytest

# A comment before a block names the module that the block needs beyond gpuvec's own.
BLOCK = re.compile(
    r"(?:^<!-- needs (?P<needs>\w+) -->\n)?^```(?P<language>\w+)\n(?P<code>.*?)^```$",
    flags=re.DOTALL | re.MULTILINE,
)


def blocks(document: Path, language: str) -> list:
    """Returns a document's code blocks in a language with what each needs, named by their lines."""
    text = document.read_text() if document.exists() else ""
    return [
        pytest.param(
            match["code"],
            match["needs"],
            id=f"{document.name}:{text[: match.start('code')].count(chr(10))}",
        )
        for match in BLOCK.finditer(text)
        if match["language"] == language
    ]
