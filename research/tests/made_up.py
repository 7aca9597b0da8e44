"""Made-up experiments: TOMLs, results, and a stand-in for the script that trains."""

import json
from pathlib import Path

STAND_IN = """
import json, sys
from pathlib import Path

arguments = sys.argv[1:]
flags = {a: b for a, b in zip(arguments, arguments[1:]) if a.startswith("--")}
seed, out = int(flags["--seed"]), Path(flags["--out_dir"])
with open(Path(__file__).with_name("calls"), "a") as file:
    file.write(" ".join(arguments) + "\\n")
if flags.get("--lr") == "13.0":
    (out / "model.resume").write_text("")
    sys.exit("error: the loss is nan")
tasks = flags.get("--tasks", "sst,para,sts").split(",")
columns = {"sst": "Predicted_Sentiment", "para": "Predicted_Is_Paraphrase",
           "sts": "Predicted_Similarity"}
for task in tasks:
    ids = [f"{number:025x}" for number in range(110, 99, -1)]  # not the order of the data
    values = [3.14159 if task == "sts" else int(key == ids[seed]) for key in ids]
    rows = "".join(f"{key},{value}\\n" for key, value in zip(ids, values))
    (out / f"{task}-dev-output.csv").write_text(f"id,{columns[task]}\\n" + rows)
best = {task: 0.5 for task in tasks} | {"epoch": 2, "loss": 1.5}
best["overall"] = 1.0 - abs(float(flags.get("--lr", 0)) - 0.3)
metrics = {"best": best, "epochs": [], "seconds": 60.0, "peak_mb": 800.0, "args": {}}
(out / "multitask-metrics.json").write_text(json.dumps(metrics))
(out / "model.pt").write_text("")
"""


def write_toml(place: Path, name: str, flags: str = "", more: str = "", seeds: str = "[0, 1]"):
    """A TOML whose runs are the stand-in's."""
    path = place / f"{name}.toml"
    script = json.dumps(str(place / "stand_in.py"))
    path.write_text(
        f'[run]\nname = "{name}"\nscript = {script}\nseeds = {seeds}\n[flags]\n{flags}\n{more}\n'
    )
    return path


def calls(place: Path) -> list[str]:
    """The command lines that the stand-in got."""
    path = place / "calls"
    return path.read_text().splitlines() if path.is_file() else []


def a_result(name: str, seed: int | None, metrics: dict, data: dict | None = None, **more) -> dict:
    """A line of results.jsonl."""
    one = {"name": name, "seed": seed, "flags": "", "metrics": metrics, "seconds": 90.0}
    return one | {"data": data or {}} | more
