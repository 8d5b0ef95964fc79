"""Extension modules and C programs are built with the package's headers and library."""

import os
import re
import sys
import sysconfig
from pathlib import Path

import gpuvec
import pytest
from bindings import ROOT
from installed import needs
from programs import compile_c, library_environment, run

pytestmark = pytest.mark.wheel

PYTHON_HEADERS = Path(sysconfig.get_path("include"))
USE = """
    import gpuvec, extension
    from array import array
    a, b = array("f", [1, 2, 3]), array("f", [4, 5, 6])
    assert extension.dot(a, b) == 32.0
"""


def test_the_headers_are_the_librarys():
    """C's and C++'s, as the repository has them, and with the version of the package."""
    for name in ("gpuvec.h", "gpuvec.hpp"):
        text = Path(gpuvec.get_include(), name).read_text()
        assert text == (ROOT / "include" / name).read_text()
    header = Path(gpuvec.get_include(), "gpuvec.h").read_text()
    numbers = re.findall(r"#define GPUVEC_VERSION_(?:MAJOR|MINOR|PATCH) (\d+)", header)
    assert ".".join(numbers) == gpuvec.__version__


@pytest.mark.skipif(not (PYTHON_HEADERS / "Python.h").exists(), reason="needs Python's headers")
def test_an_extension_module(tmp_path):
    """It is linked with the library, and finds the one that the package has loaded."""
    needs("cc")
    module = tmp_path / f"extension{sysconfig.get_config_var('EXT_SUFFIX')}"
    source = Path(__file__).with_name("extension.c")
    folders = [f"-I{PYTHON_HEADERS}", f"-I{gpuvec.get_include()}"]
    flags = ["-shared", "-fPIC", "-Wall", "-Wextra", "-Werror", *folders]
    run(["cc", *flags, source, "-o", module, gpuvec.get_library()])
    script = "\n".join(line.strip() for line in USE.splitlines())
    environment = library_environment()
    del environment["GPUVEC_LIB"]
    run([sys.executable, "-c", script], env=environment, cwd=tmp_path)


def test_a_program(tmp_path):
    """It needs a link of the library's soname, which a folder of its own may have."""
    source, program = tmp_path / "program.c", tmp_path / "program"
    call = "return gpuvec_abi_version() != GPUVEC_ABI_VERSION;"
    source.write_text(f"#include <gpuvec.h>\nint main(void) {{ {call} }}\n")
    soname = tmp_path / f"libgpuvec.so.{gpuvec.abi_version()}"
    soname.symlink_to(gpuvec.get_library())
    search = f"-Wl,-rpath,{tmp_path}"
    compile_c(source, program, f"-I{gpuvec.get_include()}", gpuvec.get_library(), search)
    run([program], env=os.environ)
