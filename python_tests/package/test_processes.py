"""The package in threads, in children, in notebooks, from any folder, with any library."""

import multiprocessing
import os
import shutil
import subprocess
import sys
from concurrent.futures import ProcessPoolExecutor

import gpuvec
import numpy as np
import pytest
from bindings import LIBRARY, ROOT
from fork import in_child
from programs import library_environment, run, run_python
from threads import in_threads

pytestmark = pytest.mark.wheel

PACKAGE = ROOT / "python/gpuvec"


def square_sum(number: int) -> float:
    """Computes in the process or thread that calls it."""
    a = gpuvec.pinned_empty(1000)
    a[:] = number
    return float(gpuvec.sum(gpuvec.mul(a, a)))


def test_threads(placement):
    """Calls of several threads do not disturb each other, nor do their errors."""

    def work(number: int) -> None:
        for _ in range(20):
            assert square_sum(number) == 1000 * number**2
            with pytest.raises(gpuvec.ArgumentError) as raised:
                gpuvec.min(np.empty(0))
            assert "there are no elements" in str(raised.value)

    in_threads(work, 8)


def test_fork(placement):
    """A child computes, whatever its parent did before; with placement gpu it is told why not."""
    assert square_sum(2) == 4000

    def child() -> None:
        with gpuvec.placement("cpu"):
            assert square_sum(3) == 9000
        if gpuvec.get_placement() == "gpu":
            with pytest.raises(gpuvec.UnavailableError) as raised:
                square_sum(3)
            assert raised.value.status is gpuvec.Status.ERROR_FORKED

    in_child(child)
    assert square_sum(2) == 4000


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_multiprocessing(on_cpu, method, monkeypatch):
    """Each way to start processes."""
    folders = [str(ROOT / "python"), str(ROOT / "python_tests/package"), *sys.path]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(filter(None, folders)))
    context = multiprocessing.get_context(method)
    with ProcessPoolExecutor(2, mp_context=context) as pool:
        assert list(pool.map(gpuvec.sum, [np.ones(10), np.ones(20)])) == [10, 20]


def test_exceptions_cross_processes(on_cpu):
    """An error in a child is the same in its parent."""
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("fork")) as pool:
        with pytest.raises(gpuvec.ArgumentError) as raised:
            pool.submit(gpuvec.min, np.empty(0)).result()
    assert raised.value.status is gpuvec.Status.ERROR_EMPTY


def test_any_folder(tmp_path):
    """The package finds its library wherever it is imported."""
    environment = library_environment()
    del environment["GPUVEC_LIB"]
    script = "import gpuvec; print(gpuvec.library_path())"
    found = run([sys.executable, "-c", script], cwd=tmp_path, env=environment)
    is_installed = "GPUVEC_DIST" in os.environ
    assert found.strip() == str(LIBRARY if is_installed else ROOT / "target/release/libgpuvec.so")


def test_the_library_beside_the_package_comes_first(tmp_path):
    """As a wheel installs it."""
    shutil.copytree(PACKAGE, tmp_path / "gpuvec")
    beside = shutil.copy(LIBRARY, tmp_path / "gpuvec/libgpuvec.so")
    environment = {**library_environment(), "PYTHONPATH": str(tmp_path)}
    del environment["GPUVEC_LIB"]
    script = "import gpuvec; print(gpuvec.library_path())"
    assert run([sys.executable, "-c", script], env=environment).strip() == str(beside)


@pytest.mark.parametrize("library", ["missing.so", "text.so", "other.so", None])
def test_a_library_that_cannot_be_used(library, tmp_path):
    """The import fails with an error that names the path and says what to do."""
    shutil.copytree(PACKAGE, tmp_path / "package/gpuvec")
    (tmp_path / "text.so").write_text("not a library\n")
    (tmp_path / "other.c").write_text("int other(void) { return 0; }\n")
    run(["cc", "-shared", "-fPIC", "-o", tmp_path / "other.so", tmp_path / "other.c"])
    environment = {**library_environment(), "PYTHONPATH": str(tmp_path / "package")}
    environment["GPUVEC_LIB"] = str(tmp_path / library) if library else ""
    command = [sys.executable, "-c", "import gpuvec"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert done.returncode == 1
    [line] = [line for line in done.stderr.splitlines() if line.startswith("ImportError: gpuvec: ")]
    assert str(tmp_path) in line
    assert "cargo build" in line or "cannot be used" in line


@pytest.mark.parametrize("option", ["-E", "-I"])
def test_python_without_its_environment_ignores_gpuvec_lib(option, tmp_path):
    """A program that is told to ignore the environment loads no library that it names."""
    shutil.copytree(PACKAGE, tmp_path / "gpuvec")
    beside = shutil.copy(LIBRARY, tmp_path / "gpuvec/libgpuvec.so")
    script = f"import sys; sys.path.insert(0, {str(tmp_path)!r}); import gpuvec\n"
    script += "print(gpuvec.library_path())"
    environment = {**library_environment(), "GPUVEC_LIB": "/nowhere/libgpuvec.so"}
    found = run([sys.executable, option, "-c", script], env=environment)
    assert found.strip() == str(beside)


def test_importing_loads_no_driver_and_starts_no_thread():
    """Nothing happens before the first call."""
    script = """
    import os, sys
    import numpy
    before, modules = len(os.listdir("/proc/self/task")), set(sys.modules)
    import gpuvec
    assert len(os.listdir("/proc/self/task")) == before
    assert "libcuda" not in open("/proc/self/maps").read()
    new = {name.split(".")[0] for name in set(sys.modules) - modules}
    print(*sorted(new - set(sys.stdlib_module_names)))
    """
    if sys.version_info < (3, 10):
        pytest.skip("this Python does not list its modules")
    assert run_python(script).split() == ["gpuvec"]


def test_importing_leaves_out_what_few_programs_use():
    """Modules of the standard library that are slow to import, and those of seldom used names."""
    script = """
    import sys
    import numpy
    slow = ("dataclasses", "inspect", "pathlib", "importlib.util", "numpy.ma", "numpy.testing")
    before = set(sys.modules)
    import gpuvec
    new = set(sys.modules) - before
    print(*sorted(new.intersection(slow)))
    print(*sorted(f"gpuvec.{name}" in new for name in ("_accumulator", "_expressions", "_memory")))
    """
    assert run_python(script).split() == ["False"] * 3


def test_names_that_are_imported_later_are_found():
    """By dir() before their first use, by a star, and by pickle; a misspelt name is an error."""
    script = """
    import gpuvec, pickle
    assert set(gpuvec.__all__) <= set(dir(gpuvec))
    names = {}
    exec("from gpuvec import *", names)
    assert set(gpuvec.__all__) <= set(names)
    assert names["Run"] is gpuvec.Run is pickle.loads(pickle.dumps(gpuvec.Run))
    try:
        gpuvec.evalute
    except AttributeError as error:
        print(error)
    """
    assert run_python(script).strip() == "module 'gpuvec' has no attribute 'evalute'"


def test_interrupted_programs_end(placement_variables):
    """Ctrl-C between calls is a KeyboardInterrupt as ever."""
    script = """
    import signal
    import gpuvec, numpy as np
    a = np.ones(100_000)
    signal.signal(signal.SIGALRM, signal.default_int_handler)
    signal.setitimer(signal.ITIMER_REAL, 0.05)
    try:
        while True:
            gpuvec.add(a, a, out=np.empty_like(a))
    except KeyboardInterrupt:
        assert gpuvec.sum(a) == 100_000
    """
    run_python(script, **placement_variables)


def test_notebooks(placement, tmp_path):
    """A cell of a notebook computes, shows arrays and errors."""
    nbclient = pytest.importorskip("nbclient")
    nbformat = pytest.importorskip("nbformat")
    pytest.importorskip("ipykernel")
    cells = [
        "import gpuvec, numpy as np\nx = gpuvec.to_device(np.ones(3, np.float32))",
        "gpuvec.add(x, x).to_host()",
        "x",
    ]
    new = nbformat.v4
    notebook = new.new_notebook(cells=[new.new_code_cell(cell) for cell in cells])
    nbclient.NotebookClient(notebook, resources={"metadata": {"path": tmp_path}}).execute(
        env=library_environment()
    )
    texts = [cell.outputs[0].data["text/plain"] for cell in notebook.cells[1:]]
    assert texts[0] == "array([2., 2., 2.], dtype=float32)"
    assert texts[1].startswith("gpuvec.DeviceArray([1., 1., 1.], shape=(3,), dtype=float32, ")
