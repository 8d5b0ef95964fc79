"""The site: `make docs` builds it in target/docs, without the network, and warnings are errors."""

import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "python")]

project = "gpuvec"
author = "gpuvec contributors"
copyright = author
[release] = re.findall(r'^version = "(.*)"$', (ROOT / "Cargo.toml").read_text(), re.MULTILINE)
version = release

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
exclude_patterns = ["requirements.txt"]
nitpicky = True

myst_enable_extensions = ["deflist"]
myst_heading_anchors = 4

html_theme = "pydata_sphinx_theme"
html_title = f"gpuvec {release}"
