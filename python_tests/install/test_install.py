"""`make install`: other projects build with the installed files, in any folder."""

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from bindings import LIBRARY, ROOT, lib
from header import man_pages, prototypes
from installed import REAL_NAME, SONAME, Installed, make, making, needs
from programs import run

pytestmark = pytest.mark.any_driver

HERE = Path(__file__).parent
VERSION = lib.gpuvec_version().decode()
# The dot product that each program prints.
RESULT = "32\n"


def files(folder: Path) -> set:
    """The files and links under a folder, by their paths in it."""
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if not path.is_dir()}


def needed(program: Path) -> list:
    """The libraries that a program names."""
    return re.findall(r"NEEDED.*\[(.*)\]", run(["readelf", "-d", "--wide", program]))


def test_library_is_found_by_its_links(installed):
    """The linker follows libgpuvec.so, and the loader the soname, to the one file."""
    for name in ("libgpuvec.so", SONAME):
        assert (installed.libdir / name).readlink() == Path(REAL_NAME)
    assert not (installed.libdir / REAL_NAME).is_symlink()


def test_every_folder_can_be_chosen(tmp_path):
    needs("make")
    folders = {name: f"/{name.lower()}" for name in ("PREFIX", "LIBDIR", "INCLUDEDIR", "MANDIR")}
    make("install", DESTDIR=tmp_path, **folders)
    cmake = {f"libdir/cmake/gpuvec/gpuvecConfig{part}.cmake" for part in ("", "Version")}
    libraries = {f"libdir/{name}" for name in ("libgpuvec.so", SONAME, REAL_NAME)}
    pages = {f"mandir/man3/{name}.3" for name in [*man_pages(), *prototypes()]}
    others = {"includedir/gpuvec.h", "includedir/gpuvec.hpp", "libdir/pkgconfig/gpuvec.pc"}
    assert files(tmp_path) == libraries | cmake | pages | others


def test_document_names_the_installed_files():
    """With the versions of this release."""
    text = (ROOT / "docs/install.md").read_text()
    for name in ("libgpuvec.so", SONAME, REAL_NAME):
        assert f"`LIBDIR/{name}`" in text
    assert f"find_package(gpuvec {VERSION.rpartition('.')[0]} REQUIRED)" in text


def test_uninstall_removes_what_install_installed_and_nothing_else(tmp_path):
    needs("make")
    other = tmp_path / "lib/pkgconfig/other.pc"
    other.parent.mkdir(parents=True)
    other.touch()
    make("install", PREFIX=tmp_path)
    assert len(files(tmp_path)) > 1
    make("uninstall", PREFIX=tmp_path)
    assert files(tmp_path) == {"lib/pkgconfig/other.pc"}
    assert not (tmp_path / "lib/cmake/gpuvec").exists()


def test_folders_with_spaces(tmp_path):
    """Other programs find what lies there, and `make uninstall` removes that and nothing else."""
    needs("make", "cc", "pkg-config")
    prefix, neighbour = tmp_path / "my folder", tmp_path / "my"
    neighbour.mkdir()
    folders = {"PREFIX": prefix, "INCLUDEDIR": tmp_path / "my headers"}
    make("install", **folders)
    installed = Installed(prefix, prefix / "lib")
    program = tmp_path / "use"
    run(["cc", HERE / "use.c", "-o", program, *installed.pkg_config("--cflags", "--libs")])
    assert run([program], env=installed.environment()) == RESULT
    make("uninstall", **folders)
    assert files(tmp_path) == {"use"} and neighbour.is_dir()


def test_a_library_that_is_built_needs_no_cargo(tmp_path):
    """BUILT names it: nothing is built, and it is what is installed."""
    needs("make")
    tree, prefix = tmp_path / "tree", tmp_path / "prefix"
    tree.mkdir()
    shutil.copy(ROOT / "Makefile", tree)
    for folder in ("install", "include"):
        shutil.copytree(ROOT / folder, tree / folder)
    done = making("install", tree, BUILT=LIBRARY, PREFIX=prefix)
    assert done.returncode == 0, done.stderr
    assert not (tree / "target").exists()
    assert (prefix / "lib" / REAL_NAME).read_bytes() == LIBRARY.read_bytes()
    shutil.rmtree(prefix)
    done = making("install", tree, BUILT=tmp_path / "missing.so", PREFIX=prefix)
    assert done.returncode != 0 and "missing.so" in done.stderr


REFUSED = [("PREFIX", folder) for folder in ("here", "../up", "/opt/../up", "/a|b", "/a'b", "/a&b")]
REFUSED += [(variable, "here") for variable in ("LIBDIR", "INCLUDEDIR", "MANDIR", "DESTDIR")]


@pytest.mark.parametrize("variable, folder", REFUSED)
def test_folders_that_cannot_be_right_are_refused(tmp_path, variable, folder):
    """Nothing is written, and the message names the variable and its value."""
    needs("make")
    for target in ("install", "uninstall"):
        done = making(target, **{"DESTDIR": tmp_path, variable: folder})
        assert done.returncode != 0 and f"{variable} is '{folder}': pass" in done.stderr
    assert not files(tmp_path)


def test_build_leaves_the_callers_target_folder_alone(tmp_path, monkeypatch):
    """The library is where every other target of the makefile looks for it."""
    needs("make", "cargo")
    for variable in ("CARGO_TARGET_DIR", "CARGO_BUILD_TARGET_DIR", "CARGO_BUILD_BUILD_DIR"):
        monkeypatch.setenv(variable, str(tmp_path / variable))
    make("build")
    assert (ROOT / "target/release/libgpuvec.so").exists() and not list(tmp_path.iterdir())


def test_no_installed_text_names_the_folders_that_it_was_installed_in(installed, tmp_path):
    """Paths follow from a file's own, and every place in a template is filled."""
    for path in installed.prefix.rglob("*"):
        if path.suffix in {".pc", ".cmake", ".3", ".h"}:
            text = path.read_text()
            assert str(tmp_path.parent) not in text and str(ROOT) not in text
            assert not re.search(r"@[A-Z]+@", text)


@pytest.mark.parametrize("compiler, language", [("cc", "c"), ("c++", "c++")])
def test_pkg_config(installed, tmp_path, compiler, language):
    needs("pkg-config", compiler)
    assert installed.pkg_config("--modversion") == [VERSION]
    program = tmp_path / "use"
    source = ["-x", language, HERE / "use.c", "-x", "none"]
    run([compiler, *source, "-o", program, *installed.pkg_config("--cflags", "--libs")])
    assert SONAME in needed(program)
    assert run([program], env=installed.environment()) == RESULT


def test_gpuvec_hpp(moved, tmp_path):
    """A C++20 program finds it beside gpuvec.h."""
    needs("pkg-config", "c++")
    source, program = tmp_path / "use.cpp", tmp_path / "use"
    source.write_text("""
        #include <gpuvec.hpp>
        #include <cstdio>
        int main() {
            const float a[] = {1, 2, 3}, b[] = {4, 5, 6};
            std::printf("%g\\n", gpuvec::dot(a, b));
        }
    """)
    flags = ["-std=c++20", *moved.pkg_config("--cflags")]
    run(["c++", *flags, source, "-o", program, *moved.pkg_config("--libs")])
    assert run([program], env=moved.environment()) == RESULT


def configure(installed, folder: Path, wanted: str) -> None:
    """Configures a copy of the outside project, which asks for a version."""
    shutil.copytree(HERE / "project", folder / "project")
    shutil.copy(HERE / "use.c", folder / "project")
    options = [f"-DCMAKE_PREFIX_PATH={installed.prefix}", f"-DWANTED={wanted}"]
    options.append("-DCMAKE_LIBRARY_ARCHITECTURE=x86_64-linux-gnu")
    run(["cmake", "-S", folder / "project", "-B", folder / "build", *options])


def test_cmake(installed, tmp_path):
    needs("cmake", "c++")
    configure(installed, tmp_path, VERSION)
    run(["cmake", "--build", tmp_path / "build"])
    for program in ("use_c", "use_cpp"):
        assert SONAME in needed(tmp_path / "build" / program)
        # Without LD_LIBRARY_PATH: CMake names the imported library's folder in the program.
        assert run([tmp_path / "build" / program]) == RESULT


def answers(installed, tmp_path, wanted: str) -> str:
    """Returns the version file's answer to a request, as `find_package` asks it."""
    major, minor, *_ = wanted.split(".")
    script = tmp_path / "ask.cmake"
    version_file = installed.libdir / "cmake/gpuvec/gpuvecConfigVersion.cmake"
    script.write_text(f"""
        set(PACKAGE_FIND_VERSION {wanted})
        set(PACKAGE_FIND_VERSION_MAJOR {major})
        set(PACKAGE_FIND_VERSION_MINOR {minor})
        include({version_file})
        message("${{PACKAGE_VERSION_COMPATIBLE}} ${{PACKAGE_VERSION_EXACT}}")
    """)
    return run(["sh", "-c", f"cmake -P {script} 2>&1"]).strip()


def test_cmake_version(moved, tmp_path):
    """A request for an older compatible version is met, for a newer or an incompatible one not."""
    needs("cmake")
    major, minor, patch = map(int, VERSION.split("."))
    assert answers(moved, tmp_path, VERSION) == "TRUE TRUE"
    assert answers(moved, tmp_path, f"{major}.{minor}.{patch + 1}") == "FALSE"
    assert answers(moved, tmp_path, f"{major}.{minor + 1}.0") == "FALSE"
    assert answers(moved, tmp_path, f"{major + 1}.0.0") == "FALSE"
    if major == 0 and minor > 0:
        assert answers(moved, tmp_path, f"0.{minor - 1}.9") == "FALSE"
    if patch > 0:
        assert answers(moved, tmp_path, f"{major}.{minor}.{patch - 1}") == "TRUE"


def finds(installed, folder: Path, request: str) -> str:
    """Configures a project that finds the package; returns what is wrong, or nothing."""
    folder.mkdir(exist_ok=True)
    (folder / "CMakeLists.txt").write_text(f"""
        cmake_minimum_required(VERSION 3.19)
        project(use LANGUAGES C)
        find_package(gpuvec {request})
        if(NOT gpuvec_FOUND)
          message(FATAL_ERROR "not found: ${{gpuvec_NOT_FOUND_MESSAGE}}")
        endif()
    """)
    command = ["cmake", "-S", folder, "-B", folder / "build"]
    command.append(f"-DCMAKE_PREFIX_PATH={installed.prefix}")
    done = subprocess.run(command, capture_output=True, text=True)
    return "" if done.returncode == 0 else done.stderr


def test_cmake_version_range(moved, tmp_path):
    """A request for a range is met if it contains the version."""
    needs("cmake")
    major, minor, patch = map(int, VERSION.split("."))
    newer = f"{major}.{minor}.{patch + 1}"
    for wanted in (f"0.0...{major + 1}", f"{VERSION}...{VERSION}", f"0.0...<{newer}"):
        assert finds(moved, tmp_path, wanted) == ""
    for refused in (f"0.0...<{VERSION}", f"{newer}...{major + 1}"):
        assert "not found" in finds(moved, tmp_path, refused)


def test_cmake_components(moved, tmp_path):
    """There are none: one that is required is an error that names it."""
    needs("cmake")
    assert finds(moved, tmp_path, "OPTIONAL_COMPONENTS static") == ""
    error = finds(moved, tmp_path, "COMPONENTS static")
    assert re.search(r"gpuvec\s+has\s+no\s+component\s+'static'", error), error


def test_a_program_may_have_functions_of_the_classic_names(moved, tmp_path):
    """GPUVEC_NO_SHORT_NAMES leaves them out, and the library uses none of the program's."""
    needs("pkg-config", "cc", "c++")
    flags = ["-Wall", "-Wextra", "-Wpedantic", "-Werror", "-rdynamic"]
    for compiler, language in (("cc", "c"), ("c++", "c++")):
        program = tmp_path / language
        source = ["-x", language, HERE / "own_names.c", "-x", "none"]
        libraries = moved.pkg_config("--cflags", "--libs")
        run([compiler, *flags, *source, "-o", program, *libraries])
        assert run([program], env=moved.environment()) == "32 6 3\n"


OTHER_LIBRARY = """
int dot_product(int a, int b) { return a * b; }
int other(void) { return dot_product(2, 3); }
"""
PROGRAM = """
#define GPUVEC_NO_SHORT_NAMES
#include <gpuvec.h>
#include <stdio.h>
int other(void);
int main(void) {
    const float a[] = {1, 2, 3}, b[] = {4, 5, 6};
    float dot = 0;
    gpuvec_dot_f32(a, b, &dot, 3, NULL);
    printf("%g %d", dot, other());
    return 0;
}
"""


def test_a_library_before_gpuvec_may_have_a_function_of_a_classic_name(moved, tmp_path):
    """As docs/install.md says, the order of linking decides which one both libraries get."""
    needs("pkg-config", "cc")
    (tmp_path / "other.c").write_text(OTHER_LIBRARY)
    (tmp_path / "program.c").write_text(PROGRAM)
    library, program = tmp_path / "libother.so", tmp_path / "program"
    run(["cc", "-shared", "-fPIC", tmp_path / "other.c", "-o", library])
    libraries = [library, *moved.pkg_config("--cflags", "--libs")]
    run(["cc", tmp_path / "program.c", "-o", program, *libraries])
    assert run([program], env=moved.environment()) == "32 6"


def test_installed_texts_name_no_file_of_the_source(moved):
    """A reader of the headers and the manual pages has neither the source nor its documents."""
    needs("make")
    pages = (moved.prefix / "share/man/man3").iterdir()
    for file in (*(moved.prefix / "include").iterdir(), *pages):
        text = file.read_text().replace("\\-", "-")
        assert not re.search(r"\b(?:docs|crates|c_examples|python_examples)/", text), file
        # The header alone says what it is made from.
        assert "src/" not in text or file.name == "gpuvec.h", file


def test_manual_pages(moved):
    """They are well-formed, and each function is described on its section's."""
    needs("groff")
    for page, functions in man_pages().items():
        path = moved.prefix / f"share/man/man3/{page}.3"
        assert run(["sh", "-c", f"groff -man -ww -z {path} 2>&1"]) == ""
        text = run(["groff", "-man", "-Tascii", "-P-cbou", path])
        for name in functions:
            assert re.search(rf"^ {{7}}\S.*\b{name}\(", text, flags=re.MULTILINE), name


def test_every_function_has_a_manual_page(moved):
    """Its own name leads to the section's page, and `apropos` finds it there."""
    needs("man", "lexgrog")
    folder = moved.prefix / "share/man"
    pages = man_pages()
    for page in pages:
        assert run(["man", "-M", folder, "-w", page]).strip() == f"{folder}/man3/{page}.3"
        found = re.findall(r': "(\w+) - ', run(["lexgrog", folder / f"man3/{page}.3"]))
        assert found == (pages[page] or ["gpuvec"])
    named = {name for names in pages.values() for name in names}
    assert named == set(prototypes())
    for page, functions in pages.items():
        for name in set(functions) - set(pages):
            assert (folder / f"man3/{name}.3").read_text() == f".so man3/{page}.3\n"
    text = run(["man", "-M", folder, "gpuvec_sum_f32"], env={**os.environ, "MANWIDTH": "100"})
    assert "gpuvec_sum_f32(const float *a" in text
