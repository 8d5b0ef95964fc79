"""The site: `make docs` builds it in target/docs, without the network; warnings are errors."""

import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "python"), str(ROOT / "docs/_extensions")]
# The kernels of pages that are notebooks import the package, too.
os.environ["PYTHONPATH"] = str(ROOT / "python")
# The figures are not in the repository, but for README's: they are drawn of their data.
BENCHMARKS = ROOT / "docs/benchmarks"
for command in (
    [ROOT / "benches/page.py", BENCHMARKS / "bench.json", BENCHMARKS],
    [ROOT / "docs/figures/draw.py"],
):
    subprocess.run([sys.executable, *command], check=True)

project = "gpuvec"
author = "gpuvec contributors"
copyright = author
[release] = re.findall(r'^version = "(.*)"$', (ROOT / "Cargo.toml").read_text(), re.MULTILINE)
version = release

extensions = [
    # Pages in Markdown; those with code cells are run.
    "myst_nb",
    "sphinx_design",
    "sphinx.ext.autodoc",
    "numpydoc",
    "c_reference",
    "name_links",
]
nitpicky = True
nitpick_ignore_regex = [
    # Types of the C library, of Python and of NumPy, whose references are on other sites.
    ("c:identifier", r"u?int\d+_t|size_t"),
    (
        "py:class",
        r"(collections|ctypes|enum|np|numpy)\..*|NDArray|DTypeLike|Buffer|gpuvec\._memory\.T",
    ),
]

myst_enable_extensions = ["attrs_inline", "colon_fence", "deflist"]
myst_heading_anchors = 4

# Pages that are notebooks run in each build; one that fails ends the build.
nb_execution_mode = "force"
nb_execution_raise_on_error = True
nb_execution_timeout = 60
nb_merge_streams = True

# A docstring quotes names of the package in single backticks.
default_role = "py:obj"
autodoc_member_order = "bysource"
autodoc_preserve_defaults = True
python_maximum_signature_line_length = 80
numpydoc_show_class_members = False
add_function_parentheses = False

html_theme = "pydata_sphinx_theme"
html_title = f"gpuvec {release}"
html_favicon = "_static/favicon.svg"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_domain_indices = False
html_show_sourcelink = False
html_context = {"default_mode": "auto"}
html_theme_options = {"header_links_before_dropdown": 6, "show_prev_next": False}
# Pages without others beside them.
html_sidebars = dict.fromkeys(["install", "tutorial/*", "faq", "releases"], [])
