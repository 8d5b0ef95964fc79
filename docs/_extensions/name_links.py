"""Links quoted names, such as `gpuvec.sum` and `gpuvec_sum_f32`, to their reference.

In docstrings, paths such as docs/reference/language.md become links to the page. In tables, quoted
code that is longer than a column may break anywhere (site.css).
"""

from __future__ import annotations

import functools
import re
from typing import TYPE_CHECKING, Any

from docutils import nodes
from sphinx.util.nodes import make_refnode

if TYPE_CHECKING:
    from sphinx.application import Sphinx

# The longest word of code in a table that stays whole, in characters.
LONGEST_WHOLE = 35
# A name, perhaps as a call.
QUOTED = re.compile(r"([\w.]+)(\(.*\))?", flags=re.DOTALL)


@functools.cache
def places(app: Sphinx) -> dict[str, tuple[str, str]]:
    """Maps each name of the references to its page and anchor."""
    return {
        name: (page, anchor)
        for domain in ("c", "py")
        for name, _, kind, page, anchor, _ in app.env.domains[domain].get_objects()
        if kind not in {"functionParam", "module"}
    }


def link(app: Sphinx, tree: nodes.document, page: str) -> None:
    """Makes links of the quoted names of a page, but those in headings and in links."""
    for literal in list(tree.findall(nodes.literal)):
        name = QUOTED.fullmatch(literal.astext())
        if name is None or name[1] not in places(app):
            continue
        if isinstance(literal.parent, (nodes.title, nodes.reference)):
            continue
        target, anchor = places(app)[name[1]]
        literal.replace_self(make_refnode(app.builder, page, target, anchor, literal.deepcopy()))


def mark_long_code(_: Sphinx, tree: nodes.document, __: str) -> None:
    """Gives long code in tables the class that lets it break."""
    for entry in tree.findall(nodes.entry):
        for literal in entry.findall(nodes.literal):
            if max(map(len, literal.astext().split()), default=0) > LONGEST_WHOLE:
                literal["classes"].append("long")


def link_paths(*arguments: Any) -> None:
    """Makes links of the paths of pages in a docstring, whose lines are the last argument."""
    lines: list[str] = arguments[-1]
    lines[:] = [re.sub(r"\bdocs/([\w/]+)\.md\b", r":doc:`/\1`", line) for line in lines]


def setup(app: Sphinx) -> dict[str, Any]:
    """Registers the extension."""
    app.connect("doctree-resolved", link)
    app.connect("doctree-resolved", mark_long_code)
    app.connect("autodoc-process-docstring", link_paths)
    return {"parallel_read_safe": True}
