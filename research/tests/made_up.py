"""Made-up experiments: TOMLs, results, and a stand-in for the script that trains."""

from pathlib import Path

STAND_IN = """
import json, sys
from pathlib import Path

arguments = sys.argv[1:]
flags = {a: b for a, b in zip(arguments, arguments[1:]) if a.startswith("--")}
out = Path(flags["--out_dir"])
with open(Path(__file__).with_name("calls"), "a") as file:
    file.write(" ".join(arguments) + "\\n")
if flags.get("--lr") == "13.0":
    (out / "model.resume").write_text("")
    sys.exit("error: the loss is nan")
metrics = {"best": {"sst": 0.5, "loss": 1.5}, "epochs": [], "seconds": 60.0}
(out / "multitask-metrics.json").write_text(json.dumps(metrics))
"""


def write_toml(place: Path, name: str, flags: str = "", seeds: str = "[0, 1]"):
    """A TOML whose runs are the stand-in's."""
    path = place / f"{name}.toml"
    path.write_text(f'[run]\nname = "{name}"\nseeds = {seeds}\n[flags]\n{flags}\n')
    return path


def calls(place: Path) -> list[str]:
    """The command lines that the stand-in got."""
    return (place / "calls").read_text().splitlines()
