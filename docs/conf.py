"""The site: `make docs` builds it in target/docs, without the network, and warnings are errors."""

import os
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "python")]
# The kernels of pages that are notebooks import the package, too.
os.environ["PYTHONPATH"] = str(ROOT / "python")

project = "gpuvec"
author = "gpuvec contributors"
copyright = author
[release] = re.findall(r'^version = "(.*)"$', (ROOT / "Cargo.toml").read_text(), re.MULTILINE)
version = release

extensions = ["myst_nb", "sphinx_design", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
exclude_patterns = ["requirements.txt"]
nitpicky = True

myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 4

# Pages that are notebooks run in each build; one that fails ends the build.
nb_execution_mode = "force"
nb_execution_raise_on_error = True
nb_execution_timeout = 60
nb_merge_streams = True

html_theme = "pydata_sphinx_theme"
html_title = f"gpuvec {release}"
