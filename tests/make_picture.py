"""Take the texts' pictures of pages, light and dark, with a headless Chromium.

python -m tests.make_picture
"""

import base64
import io
import shutil
import tempfile
from pathlib import Path

from PIL import Image

from bert import BertModel
from lessons import attention_maps, playground
from tests.browser import Browser
from tokenizer import BertTokenizer
from training.files.hub import OWN_MODEL

FOLDER = Path(__file__).resolve().parent.parent / "docs" / "figures"
WIDTH = 1000  # of the window
TEXT = "The film never quite finds its feet, but sings at the end."
CHOSEN = """find("layers").querySelectorAll("input")[1].click();
find("heads").querySelectorAll("input")[4].click(); point(6)"""  # it looks at the token before
COLOURS = 64  # a quarter of the bytes, and no difference to be seen


def playground_page() -> str:
    """The page of our own model: a sentence, and what is behind its [MASK]."""
    return playground.page(playground.load(OWN_MODEL), OWN_MODEL, (), None)


def maps_page() -> str:
    """The attention of the same model to a sentence."""
    tokenizer = BertTokenizer.from_pretrained(OWN_MODEL)
    batch = tokenizer(TEXT, return_tensors="pt")
    model = BertModel.from_pretrained(OWN_MODEL)
    maps = attention_maps.attention_maps(model, batch.input_ids, batch.attention_mask)
    tokens = tokenizer.convert_ids_to_tokens(batch.input_ids[0])
    return attention_maps.page(maps[:, 0].numpy(), tokens, TEXT)


def main() -> None:
    """Open each page twice."""
    pages = {  # what is waited for, what is chosen, and the height of the window
        "playground": (playground_page(), "shown && !busy", "", 800),
        "attention-maps": (maps_page(), "true", CHOSEN, 450),
    }
    with tempfile.TemporaryDirectory() as folder:
        browser = Browser(shutil.which("chromium"), folder)
        for name, (text, until, script, height) in pages.items():
            page = Path(folder) / "page.html"
            page.write_text(text, encoding="utf-8")
            size = {"width": WIDTH, "height": height, "deviceScaleFactor": 1.5, "mobile": True}
            browser("Emulation.setDeviceMetricsOverride", **size)
            for scheme in ("light", "dark"):
                features = [{"name": "prefers-color-scheme", "value": scheme}]
                browser("Emulation.setEmulatedMedia", features=features)
                browser.open(page)
                browser.wait(until)
                browser.eval(script)
                picture = browser("Page.captureScreenshot", format="png")["data"]
                image = Image.open(io.BytesIO(base64.b64decode(picture))).convert("RGB")
                image.quantize(COLOURS).save(FOLDER / f"{name}-{scheme}.png", optimize=True)
        browser.session = None
        browser.close()


if __name__ == "__main__":
    main()
