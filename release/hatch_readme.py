"""hatchling's hook: the package's description, README.md with links that an index can follow.

README.md links to files of the repository. On an index they lead to the site, whose address is
`Documentation` in [project.urls]; as long as there is none, only their texts are left.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

# The pages of the site that include files of the root.
ROOT_FILES = {
    "CONTRIBUTING.md": "contributing.html",
    "CHANGELOG.md": "releases.html",
    "SECURITY.md": "contributing/security.html",
}


class Hook(MetadataHookInterface):
    """Sets the description."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Runs before hatchling reads the metadata."""
        site = metadata.get("urls", {}).get("Documentation")
        text = (Path(self.root) / "README.md").read_text(encoding="utf-8")
        metadata["readme"] = {"content-type": "text/markdown", "text": description(text, site)}


def description(text: str, site: str | None) -> str:
    """Returns a README whose links lead to the site."""

    def followed(match: re.Match[str]) -> str:
        bang, label, target = match.groups()
        address = address_of(target, site, is_image=bool(bang))
        if address:
            return f"{bang}[{label}]({address})"
        return "" if bang else label

    return re.sub(r"(!?)\[([^\]]*)\]\(([^)]+)\)", followed, text)


def address_of(target: str, site: str | None, *, is_image: bool) -> str | None:
    """Returns the address of a link's target on the site, or None."""
    if "://" in target:
        return target
    path, _, anchor = target.partition("#")
    if is_image:
        page: str | None = f"_images/{Path(path).name}"
    elif path.startswith("docs/"):
        page = re.sub(r"\.md$", ".html", path.removeprefix("docs/"))
    else:
        page = ROOT_FILES.get(path)
    if not (site and page):
        return None
    return f"{site.rstrip('/')}/{page}" + (f"#{anchor}" if anchor else "")
