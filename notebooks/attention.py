# %% [markdown]
# # What the heads look at
#
# One sentence, and where each head of each layer looks, by the `attention` of `bert.py`. `docs/attention-maps.md`
# tells what there is to see, and what attention does not explain.
#
# `part1.ipynb` says what to fill in below.

# %%
# first_cell.py

# %%
from IPython.display import Image, display

TEXT = "The film never quite finds its feet, but sings at the end."
picture = Path("predictions/attention.png")
picture.unlink(missing_ok=True)
# !python -m lessons.attention_maps --text "{TEXT}" --out predictions/attention
if not picture.is_file():
    raise Stop("no picture: is bert.py written? python sanity_check.py says what is missing")
display(Image(picture))

# %% [markdown]
# A row is a layer, a column a head; in each square line i is what token i attends to. The page
# `predictions/attention.html` is for walking around in it.
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
# The mean weight that each head gives to the token before, to the one after, and to `[CLS]`:

# %%
before, after = (maps.diagonal(offset, 2, 3).mean(-1) for offset in (-1, 1))  # (layers, H)
for name, weight in (("before", before), ("after", after), ("[CLS]", maps[..., 0].mean(-1))):
    layer, head = divmod(int(weight.argmax()), weight.size(1))
    print(f"{name:>6}: most in layer {layer + 1}, head {head + 1}: {weight.max():.2f}")
