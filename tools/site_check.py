"""Looks at every page of the site in a browser, and checks it, in four views.

    tools/site_check.py [--pages GLOB] [--screenshots FOLDER]      after `make docs`

Light and dark, 390 and 1400 pixels wide: a page must not be wider than the window, lack an image or
write an error to the console, and must request nothing from another host. Needs playwright, and
Debian's Chromium.
"""

from __future__ import annotations

import argparse
import shutil
import sys
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from itertools import product
from pathlib import Path
from threading import Thread

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "python_tests/support"))
from playwright.sync_api import Browser, ConsoleMessage, Request, sync_playwright
from progress import progress

ROOT = Path(__file__).resolve().parents[1]
SITE = ROOT / "target/docs"
WIDTHS = {"narrow": 390, "wide": 1400}
HEIGHT = 900
SCHEMES = ("light", "dark")
# Chromium's own services, which have nothing to look for on a machine without a network.
FLAGS = (
    "--no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking"
    " --disable-component-update --disable-sync"
).split()
# The widest element that is outside of the window, if the page can be scrolled sideways.
OVERFLOW = """() => {
    const width = document.documentElement.clientWidth;
    if (document.documentElement.scrollWidth <= width) return null;
    const beyond = [...document.querySelectorAll('main *')]
        .filter(element => element.getBoundingClientRect().right > width + 1);
    const text = beyond.length ? beyond[0].outerHTML.slice(0, 120) : 'no element of main';
    return `${document.documentElement.scrollWidth} pixels wide: ${text}`;
}"""
# Images that cannot be loaded, also those that are loaded when they come into view.
BROKEN_IMAGES = """async () => {
    const shown = [...document.images].filter(image => image.checkVisibility());
    const loaded = image => { image.loading = 'eager'; return image.decode(); };
    const results = await Promise.allSettled(shown.map(loaded));
    return shown.filter((_, i) => results[i].status == 'rejected').map(image => image.src);
}"""


def pages(glob: str) -> list[str]:
    """Returns the paths of the site's pages that match."""
    found = sorted(SITE.glob(glob))
    return [str(path.relative_to(SITE)) for path in found if "_static" not in path.parts]


class View:
    """A tab of the browser, which collects what goes wrong in the pages that it opens."""

    def __init__(self, browser: Browser, host: str, width: str, scheme: str) -> None:
        self.host, self.name = host, f"{width}-{scheme}"
        self.found: list[str] = []
        size = {"width": WIDTHS[width], "height": HEIGHT}
        self.page = browser.new_page(viewport=size, color_scheme=scheme)
        self.page.on("pageerror", lambda error: self.found.append(str(error)))
        self.page.on("console", self._heard)
        self.page.on("request", self._requested)

    def _heard(self, message: ConsoleMessage) -> None:
        if message.type == "error":
            self.found.append(message.text)

    def _requested(self, request: Request) -> None:
        if not request.url.startswith((self.host, "data:", "blob:")):
            self.found.append(f"requests {request.url}")

    def problems(self, path: str) -> list[str]:
        """Opens a page, and returns what is wrong with it."""
        self.found = []
        self.page.goto(f"{self.host}/{path}", wait_until="load")
        broken = self.page.evaluate(BROKEN_IMAGES)
        overflow = self.page.evaluate(OVERFLOW)
        return [
            *self.found,
            *(f"broken image {source}" for source in broken),
            *([overflow] if overflow else []),
        ]

    def write(self, path: str, folder: Path) -> None:
        """Writes a screenshot of the page that is open, from its top to its end."""
        name = path.removesuffix(".html").replace("/", "-")
        self.page.screenshot(path=folder / f"{name}-{self.name}.png", full_page=True)


def check(view: View, paths: list[str], folder: Path | None) -> int:
    """Checks each page in a view; returns the number of problems."""
    count = 0
    with progress(what=view.name, total=len(paths), unit="pages") as shown:
        for path in paths:
            found = view.problems(path)
            count += len(found)
            for problem in found:
                shown.write(f"{path}, {view.name}: {problem}")
            if folder:
                view.write(path, folder)
            shown.update(1)
    return count


def main() -> None:
    """Checks the pages that the command line names."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pages", default="**/*.html", help="a pattern of paths in target/docs")
    parser.add_argument("--screenshots", type=Path, help="the folder to write screenshots to")
    chosen = parser.parse_args()
    paths = pages(chosen.pages)
    if not paths:
        sys.exit(f"{SITE} has no page {chosen.pages}: run `make docs`")
    if chosen.screenshots:
        chosen.screenshots.mkdir(parents=True, exist_ok=True)
    chromium = shutil.which("chromium") or sys.exit("install Debian's package chromium")
    handler = partial(SimpleHTTPRequestHandler, directory=SITE)
    # A request writes no line.
    SimpleHTTPRequestHandler.log_message = lambda *_: None
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    Thread(target=server.serve_forever, daemon=True).start()
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=FLAGS)
        host = f"http://127.0.0.1:{server.server_port}"
        views = [View(browser, host, *view) for view in product(WIDTHS, SCHEMES)]
        count = sum(check(view, paths, chosen.screenshots) for view in views)
        browser.close()
    server.shutdown()
    print(f"{len(paths)} pages in {len(views)} views: {count} problems")
    sys.exit(count > 0)


if __name__ == "__main__":
    main()
