"""The examples in README.md work as they are printed, as do the demo and the Python examples."""

import re
import sys

import pytest
from bindings import ROOT
from programs import compile_c, library_environment, run

README = ROOT / "README.md"
RELEASE = ROOT / "target/release"


def blocks(language: str) -> list:
    """The README's code blocks in a language, each named by its place in the file."""
    text = README.read_text() if README.exists() else ""
    found = re.finditer(rf"^```{language}\n(.*?)^```$", text, flags=re.DOTALL | re.MULTILINE)
    return [pytest.param(m[1], id=f"line {text[: m.start()].count(chr(10)) + 1}") for m in found]


def test_readme_shows_both_languages():
    """There is an example in Python and one in C."""
    assert blocks("python") and blocks("c")


@pytest.mark.parametrize("code", blocks("python"))
def test_python(code):
    """Python blocks run in the repository's root, as the README says."""
    run([sys.executable, "-c", code], cwd=ROOT, env=library_environment())


@pytest.mark.parametrize("code", blocks("c"))
def test_c(code, tmp_path):
    """C blocks compile without warnings, link with the library alone, and run."""
    source, program = tmp_path / "program.c", tmp_path / "program"
    source.write_text(code)
    link = [f"-I{ROOT / 'include'}", f"-L{RELEASE}", "-lgpuvec", f"-Wl,-rpath,{RELEASE}"]
    compile_c(source, program, *link)
    run([program], env=library_environment())


def test_demo(placement):
    """The demo prints a line for each operation and memory, and exits with 0."""
    environment = library_environment(GPUVEC_PLACEMENT=placement.name.lower())
    output = run([sys.executable, ROOT / "python_examples/demo.py"], env=environment)
    for operation in ("add float32", "add int32", "dot float32"):
        for memory in ("pageable", "pinned"):
            assert re.search(rf"^{operation} +{memory} .* ms", output, flags=re.MULTILINE), output


@pytest.mark.parametrize("name", ["device_loop", "streams", "structured", "mixed"])
def test_example(placement, name):
    """Each example checks its own results and prints a summary."""
    environment = library_environment(GPUVEC_PLACEMENT=placement.name.lower())
    assert run([sys.executable, ROOT / f"python_examples/{name}.py"], env=environment)


def test_demo_reports_errors():
    """The demo exits with 1 and a reason if the library cannot be loaded."""
    environment = library_environment(GPUVEC_PLACEMENT="nowhere")
    script = [sys.executable, ROOT / "python_examples/demo.py"]
    with pytest.raises(AssertionError, match="GPUVEC_PLACEMENT is 'nowhere'"):
        run(script, env=environment)
