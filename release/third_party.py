"""Writes LICENSE-THIRD-PARTY: the notices and licences of all that is linked into the wheel.

`--check` compares the file with Cargo.lock instead. A crate under several licences is taken under
MIT, else under Apache-2.0. Some crates ship no licence file, or one without a copyright notice:
their notice names the authors in their manifest.
"""

import re
import sys
import textwrap
from pathlib import Path

from crates import linked_crates

ROOT = Path(__file__).resolve().parents[1]
NOTICES = ROOT / "LICENSE-THIRD-PARTY"
NOTICE = re.compile(r"^\s*(Copyright (?:\(c\)|©|\d).*?)(?: or)?$", re.MULTILINE | re.IGNORECASE)
HEADING = """\
libgpuvec.so, and the extension module of the Python package, contain besides gpuvec parts of the
following software. Texts that several of these share are at the end.
"""


def taken_licence(crate: dict) -> str:
    """The licence that gpuvec takes a crate under."""
    offered = re.split(r"/|\bOR\b", crate["license"])
    taken = [name for name in ("MIT", "Apache-2.0") if name in map(str.strip, offered)]
    if not taken:
        sys.exit(f"{crate['name']} is under {crate['license']}: say in {__file__} how to take it")
    return taken[0]


def notices(crate: dict) -> list[str]:
    """The copyright notices of a crate."""
    folder = Path(crate["manifest_path"]).parent
    files = sorted(folder.glob("LICENSE-MIT*")) or sorted(folder.glob("LICENSE*"))
    found = [line.strip() for file in files[:1] for line in NOTICE.findall(file.read_text())]
    authors = [author.split(" <")[0] for author in crate["authors"]]
    return found or [f"Copyright (c) {', '.join(authors or [crate['name'] + ' contributors'])}"]


def entry(crate: dict) -> str:
    """One crate's lines."""
    lines = [f"{crate['name']} {crate['version']}: {taken_licence(crate)}", *notices(crate)]
    return "\n".join(lines[:1] + [textwrap.indent(line, "    ") for line in lines[1:]])


def text() -> str:
    """The whole file."""
    crates = sorted(linked_crates(ROOT), key=lambda crate: crate["name"])
    entries = [entry(crate) for crate in crates]
    standard_library = (ROOT / "release/standard_library.txt").read_text()
    licence = (ROOT / "LICENSE-MIT").read_text()
    mit = "MIT:\n\n" + textwrap.indent(licence[licence.index("Permission") :], "    ")
    return "\n".join([HEADING, "\n\n".join(entries) + "\n", standard_library, mit])


def main() -> None:
    """Writes the file, or says that it is not up to date."""
    if "--check" not in sys.argv:
        NOTICES.write_text(text())
    elif NOTICES.read_text() != text():
        sys.exit(f"{NOTICES.name} is not up to date: run `python3 release/third_party.py`")


if __name__ == "__main__":
    main()
