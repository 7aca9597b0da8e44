"""Take the README's pictures of the playground, light and dark, with a headless Chromium.

python -m tests.make_picture
"""

import base64
import shutil
import tempfile
from pathlib import Path

from lessons import playground
from tests.browser import Browser
from training.files.hub import OWN_MODEL

FOLDER = Path(__file__).resolve().parent.parent / "docs" / "figures"
WIDTH, HEIGHT = 1000, 800  # of the window: the sentence, and what is behind its [MASK]


def main() -> None:
    """Open the page of our own model twice."""
    with tempfile.TemporaryDirectory() as folder:
        page = Path(folder) / "page.html"
        text = playground.page(playground.load(OWN_MODEL), OWN_MODEL, (), None)
        page.write_text(text, encoding="utf-8")
        browser = Browser(shutil.which("chromium"), folder)
        size = {"width": WIDTH, "height": HEIGHT, "deviceScaleFactor": 1.5, "mobile": True}
        browser("Emulation.setDeviceMetricsOverride", **size)
        for scheme in ("light", "dark"):
            features = [{"name": "prefers-color-scheme", "value": scheme}]
            browser("Emulation.setEmulatedMedia", features=features)
            browser.open(page)
            browser.wait("shown && !busy")
            picture = browser("Page.captureScreenshot", format="png")["data"]
            (FOLDER / f"playground-{scheme}.png").write_bytes(base64.b64decode(picture))
        browser.session = None
        browser.close()


if __name__ == "__main__":
    main()
