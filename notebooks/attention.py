# %% [markdown]
# # What the heads look at
#
# This notebook takes one sentence and shows where each head of each layer looks, as the `attention` of your `bert.py`
# computes it. `docs/attention-maps.md` explains what there is to see, and what attention does not explain.
#
# `part1.ipynb` explains what to fill in below.

# %%
# first_cell.py

# %%
import html

from IPython.display import HTML, display

TEXT = "The film never quite finds its feet, but sings at the end."
page = Path("predictions/attention.html")
page.unlink(missing_ok=True)
# !python -m lessons.attention_maps --text "{TEXT}" --out {page}
if not page.is_file():
    raise Stop("no page: is bert.py written? python sanity_check.py says what is missing")
source = html.escape(page.read_text(encoding="utf-8"))
display(HTML(f'<div><iframe srcdoc="{source}" width="100%" height="600"></iframe></div>'))

# %% [markdown]
# Point at a token. The darker another token becomes, the more attention weight the chosen token gives to it.
#
# ## One head in numbers

# %%
from bert import BertModel
from lessons.attention_maps import attention_maps
from tokenizer import BertTokenizer
from training.files.hub import default_model

NAME = default_model()
model, tokenizer = BertModel.from_pretrained(NAME), BertTokenizer.from_pretrained(NAME)
batch = tokenizer(TEXT, return_tensors="pt")
maps = attention_maps(model, batch["input_ids"], batch["attention_mask"])[:, 0]  # (layers, H, L, L)
tokens = tokenizer.convert_ids_to_tokens(batch["input_ids"][0].tolist())
LAYER, HEAD = 0, 0
for token, row in zip(tokens, maps[LAYER, HEAD], strict=True):
    print(f"{token:>12} looks at {tokens[row.argmax()]:12} {row.max():.2f}")

# %% [markdown]
# Which head gives most weight, on average, to the token before, the token after, or `[CLS]`?

# %%
before, after = (maps.diagonal(offset, 2, 3).mean(-1) for offset in (-1, 1))  # (layers, H)
for name, weight in (("before", before), ("after", after), ("[CLS]", maps[..., 0].mean(-1))):
    layer, head = divmod(int(weight.argmax()), weight.size(1))
    print(f"{name:>6}: most in layer {layer + 1}, head {head + 1}: {weight.max():.2f}")
