"""Other languages bind the installed library: Fortran, Go, and Rust by way of bindgen.

Each program prints a dot product, and the beginning of an error's text.
"""

from pathlib import Path

import pytest
from bindings import ROOT
from installed import needs
from programs import run

pytestmark = pytest.mark.any_driver

HERE = Path(__file__).parent


def test_fortran(moved, tmp_path):
    needs("gfortran", "pkg-config")
    program = tmp_path / "use"
    strict = ["-std=f2008", "-Wall", "-Wextra", "-Werror"]
    libraries = moved.pkg_config("--libs")
    run(["gfortran", *strict, HERE / "use.f90", "-o", program, *libraries], cwd=tmp_path)
    assert run([program], env=moved.environment()).split() == ["32", "stream"]


def test_go(moved, tmp_path):
    needs("go", "pkg-config", "cc")
    program = tmp_path / "use"
    # It downloads nothing, and keeps what it compiled for the next run. Its cache knows the
    # preprocessor's options, but not pkg-config's answer, which changes with the folder.
    environment = {
        **moved.environment(),
        "GOPROXY": "off",
        "GOCACHE": str(ROOT / "target/go"),
        "CGO_CPPFLAGS": f"-I{moved.prefix}",
    }
    run(["go", "build", "-o", program], cwd=HERE / "go", env=environment)
    assert run([program], env=moved.environment()).splitlines() == ["32", "a is N"]


def test_rust(moved, tmp_path):
    needs("bindgen", "rustc", "gcc")
    bindings, program = tmp_path / "bindings.rs", tmp_path / "use"
    # bindgen brings no stddef.h of its own.
    headers = run(["gcc", "-print-file-name=include"]).strip()
    header = moved.prefix / "include/gpuvec.h"
    # As C++, where an enumeration and its type are one; C before C23 has two types of one name.
    run(["bindgen", header, "-o", bindings, "--", "-x", "c++", "-isystem", headers])
    environment = {**moved.environment(), "BINDINGS": str(bindings)}
    options = ["--edition=2021", "-L", moved.libdir, "-lgpuvec"]
    run(["rustc", *options, HERE / "use.rs", "-o", program], env=environment)
    assert run([program], env=moved.environment()).splitlines() == ["32", "b is N"]
