# %% [markdown]
# # What the heads look at
#
# One sentence, and where each head of each layer looks, by the `attention` of `bert.py`. `docs/attention-maps.md`
# tells what there is to see, and what attention does not explain.
#
# In Colab or Kaggle, put the address of your group's repository into `REPOSITORY`; in a clone, leave it empty. A
# private repository takes a token that may read this repository alone: `https://TOKEN@github.com/GROUP/minbert.git`.
# Remove it before you share the notebook: who has the token can read your code. What is missing is installed; a
# PyTorch that is already there stays.

# %%
# first_cell.py

# %%
from IPython.display import Image, display

TEXT = "The film never quite finds its feet, but sings at the end."
picture = Path("predictions/attention.png")
picture.unlink(missing_ok=True)
# !python lessons/attention_maps.py --text "{TEXT}" --out predictions/attention
if not picture.is_file():
    raise Stop("no picture: is bert.py written? python sanity_check.py says what is missing")
display(Image(picture))

# %% [markdown]
# A row is a layer, a column a head; in each square line i is what piece i attends to. The page
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
pieces = tokenizer.convert_ids_to_tokens(batch["input_ids"][0].tolist())
LAYER, HEAD = 0, 0
for piece, row in zip(pieces, maps[LAYER, HEAD], strict=True):
    print(f"{piece:>12} looks at {pieces[row.argmax()]:12} {row.max():.2f}")

# %% [markdown]
# ## Heads that look back, ahead, or at `[CLS]`
#
# The mean weight that each head gives to the piece before, to the one after, and to the first one:

# %%
for name, share in (
    ("before", maps.diagonal(-1, 2, 3).mean(-1)),  # (layers, H)
    ("after", maps.diagonal(1, 2, 3).mean(-1)),
    ("[CLS]", maps[..., 0].mean(-1)),
):
    layer, head = divmod(int(share.argmax()), share.size(1))
    print(f"{name:>6}: most in layer {layer + 1}, head {head + 1}: {share.max():.2f}")
