"""Makes the gallery's thumbnails from the pictures of its pages, which `make docs` executed.

    .venv/bin/python docs/gallery/thumbnails.py [target/jupyter_execute/gallery]

A thumbnail is committed, since it seldom changes: the last picture of its page, 480 pixels wide.
"""

import base64
import io
import json
import sys
from pathlib import Path

from PIL import Image

FOLDER = Path(__file__).resolve().parent
EXECUTED = FOLDER.parents[1] / "target/jupyter_execute/gallery"
WIDTH = 480


def last_picture(notebook: Path) -> bytes:
    """Returns the PNG file that a page shows last."""
    cells = json.loads(notebook.read_text())["cells"]
    outputs = [output for cell in cells for output in cell.get("outputs", [])]
    [*_, last] = (o["data"]["image/png"] for o in outputs if "image/png" in o.get("data", {}))
    return base64.b64decode(last)


def main() -> None:
    """Writes a thumbnail for each executed page."""
    executed = Path(sys.argv[1]) if sys.argv[1:] else EXECUTED
    for notebook in sorted(executed.glob("*.ipynb")):
        picture = Image.open(io.BytesIO(last_picture(notebook))).convert("RGB")
        picture.thumbnail((WIDTH, WIDTH))
        to = FOLDER / "thumbnails" / f"{notebook.stem}.webp"
        picture.save(to, quality=80)
        print(to)


if __name__ == "__main__":
    main()
