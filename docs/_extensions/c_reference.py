"""Completes the pages of the C reference from include/gpuvec.h, their only source.

The line `{{ section Reductions }}` of a page becomes that section's comment, types and functions,
`{{ functions }}` the table of all functions, and `{{ statuses }}` that of the statuses.
"""

from __future__ import annotations

import re
from itertools import groupby
from pathlib import Path
from textwrap import dedent, indent
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from sphinx.application import Sphinx

HEADER = Path(__file__).resolve().parents[2] / "include/gpuvec.h"
# A comment and the macro, type, field, enumerator or function that it describes.
DESCRIBED = re.compile(
    r"/\*\*(?P<comment>.*?)\*/\s*"
    r"(?P<code>#define [^\n]+|(?:enum|typedef struct) \w+ ?[^;{]*\{|\w+ = [^,]+,|[^;{}]*;)",
    flags=re.DOTALL,
)
NAME = r"\b(?:gpuvec_|GPUVEC_)\w+\b"
# The page of the site that the header names by its title.
LANGUAGE = '"The language of expressions"'
# The page of each section is named as its manual page is.
PAGE = str.maketrans(" ", "_")


class Item(NamedTuple):
    """A declaration: its directive of Sphinx's C domain, its signature and its description."""

    directive: str
    signature: str
    text: str

    def is_part(self) -> bool:
        """Returns whether it belongs to the type before it."""
        return self.directive in {"enumerator", "member"}

    def key(self) -> tuple[str, str]:
        """Returns an equal value for functions that share a description."""
        return (self.directive, self.text if self.directive == "function" else self.signature)


def sections() -> dict[str, tuple[str, str]]:
    """Maps the title of each section to its comment and its declarations."""
    parts = re.split(r"^/\* == (.*) ==\n", HEADER.read_text(), flags=re.MULTILINE)
    found = {}
    for title, part in zip(parts[1::2], parts[2::2]):
        comment, _, declarations = part.partition("*/")
        found[title] = without_stars(comment), declarations
    return found


def without_stars(comment: str) -> str:
    """Returns the text of a comment."""
    return re.sub(r"^ *\* ?", "", comment, flags=re.MULTILINE).strip()


def items(declarations: str) -> list[Item]:
    """Returns what a section declares, in its order."""
    found = []
    for match in DESCRIBED.finditer(declarations):
        text, code = without_stars(match["comment"]), " ".join(match["code"].split())
        if code.startswith("#define"):
            text += f" It is `{code.split()[2]}`."
        # Not the second spelling of an enumeration, for C before C23.
        if not code.startswith("typedef int32_t"):
            found.append(Item(*in_the_domain(code), text))
    return found


def in_the_domain(code: str) -> tuple[str, str]:
    """Returns the directive and the signature of a declaration."""
    code = re.sub(r"\bstruct (?=gpuvec_\w+ \*)", "", code)
    if macro := re.match(r"#define (\w+)", code):
        return "macro", macro[1]
    if opened := re.match(r"(?:typedef )?(enum|struct) (\w+)(?: .*\{| \w+;)$", code):
        return opened[1], opened[2]
    if code.endswith(","):
        return "enumerator", code.rstrip(",")
    return "function" if "(" in code else "member", code.rstrip(";")


def directives(declared: list[Item]) -> str:
    """Returns the directives of declarations, in reStructuredText."""
    text = ""
    for _, same in groupby(declared, Item.key):
        first, *others = same
        start = f".. c:{first.directive}:: "
        signatures = [item.signature for item in (first, *others)]
        body = indent(restructured(first.text), "   ")
        directive = start + ("\n" + " " * len(start)).join(signatures) + f"\n\n{body}\n\n"
        text += indent(directive, "   " * first.is_part())
    return text


def restructured(text: str) -> str:
    """Returns a comment of the header as reStructuredText."""
    paragraphs = []
    for paragraph in text.split("\n\n"):
        if paragraph.startswith("    "):
            paragraphs += [".. code-block:: c", paragraph]
        else:
            paragraphs.append(re.sub(r"`([^`]+)`", r"``\1``", paragraph))
    return "\n\n".join(paragraphs)


def markdown(text: str) -> str:
    """Returns the comment of a section as Markdown."""
    paragraphs = []
    # Code may have empty lines.
    for paragraph in re.findall(r"(?:    .*(?:\n\n(?=    )|\n)?)+|(?:(?!    ).+\n?)+", text):
        if paragraph.startswith("    "):
            is_code = re.search(r";(?: *//.*)?$", paragraph, flags=re.MULTILINE)
            language = "c" if is_code else "text"
            paragraph = f"```{language}\n{dedent(paragraph).strip()}\n```"
        elif title := re.match(r"== (.*) ==", paragraph):
            paragraph = f"## {title[1]}"
        else:
            paragraph = re.sub(rf"`[^`]*`|{NAME}", in_backticks, paragraph)
            paragraph = paragraph.replace(LANGUAGE, "{doc}`/reference/language`")
        paragraphs.append(paragraph)
    return "\n\n".join(paragraphs)


def in_backticks(match: re.Match[str]) -> str:
    """Quotes a name that is not quoted yet."""
    return match[0] if match[0].startswith("`") else f"`{match[0]}`"


def section(title: str) -> str:
    """Returns the body of a section's page."""
    comment, declarations = sections()[title]
    declared = items(declarations)
    functions = [item for item in declared if item.directive == "function"]
    types = [item for item in declared if item.directive != "function"]
    text = markdown(comment)
    for heading, group in (("Types and constants", types), ("Functions", functions)):
        if group:
            text += f"\n\n## {heading}\n\n```{{eval-rst}}\n{directives(group)}```"
    return text


def table() -> str:
    """Returns the table of functions in the header's first comment."""
    opening, _ = HEADER.read_text().split("*/", 1)
    _, _, rest = without_stars(opening.removeprefix("/**")).partition("== Functions ==")
    text = ""
    for line in rest.split('"All functions"')[0].splitlines():
        if title := re.fullmatch(r"(\w.*):", line):
            page = title[1].lower().translate(PAGE)
            text += f"\n## [{title[1]}]({page}.md)\n\n| function | what it does |\n|---|---|\n"
        elif row := re.fullmatch(r"    (\w+(?:, \w+)*) +(\S.*)", line):
            text += f"| {linked(row[1])} | {row[2].replace('*', chr(92) + '*')} |\n"
    return text


def statuses() -> str:
    """Returns the table of statuses."""
    [body] = re.findall(r"^enum gpuvec_status.*?\{\n(.*?)^\};", HEADER.read_text(), re.M | re.S)
    text = "| status | value | meaning |\n|---|---|---|\n"
    for comment, name, value in re.findall(r"/\*\*(.*?)\*/\s*(\w+) = (\d+)", body, re.S):
        text += f"| `{name}` | {value} | {' '.join(without_stars(comment).split())} |\n"
    return text


def linked(names: str) -> str:
    """Returns references to functions, such as those of `gpuvec_add_f32, _f64`."""
    first, *endings = names.split(", ")
    stem = first.rpartition("_")[0]
    return ", ".join(
        [f"{{c:func}}`{first}`", *(f"{{c:func}}`{end} <{stem}{end}>`" for end in endings)]
    )


def complete(app: Sphinx, _: str, source: list[str]) -> None:
    """Replaces the lines of a page that stand for parts of the header."""
    text = re.sub(r"^\{\{ section (.*) \}\}$", lambda m: section(m[1]), source[0], flags=re.M)
    for line, made in (("functions", table), ("statuses", statuses)):
        text = re.sub(rf"^\{{\{{ {line} \}}\}}$", lambda _, made=made: made(), text, flags=re.M)
    if text != source[0]:
        app.env.note_dependency(str(HEADER))
        source[0] = text


def setup(app: Sphinx) -> dict[str, Any]:
    """Registers the extension."""
    app.connect("source-read", complete)
    return {"parallel_read_safe": True}
