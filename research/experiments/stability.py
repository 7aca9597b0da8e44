"""classifier.py, and with --uncorrected AdamW without its bias correction.

    python research/experiments/stability.py --uncorrected --train few.csv --dev dev.csv --lr 5e-5

Zhang et al. (2021) and Mosbach et al. (2021) found what makes fine-tuning on few labels fail: AdamW
without its bias correction, as BERT's own code had it, few epochs, no warm-up. All else is what
classifier.py does with the same flags.
"""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent.parent))

import classifier
from training.cli.scripts import run_script


def main() -> None:
    """Run classifier.py with one optimizer or the other."""
    if "--uncorrected" in sys.argv:
        sys.argv.remove("--uncorrected")
        classifier.AdamW = partial(classifier.AdamW, correct_bias=False)
    classifier.main()


if __name__ == "__main__":
    run_script(main)
