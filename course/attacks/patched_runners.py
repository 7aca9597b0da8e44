"""Has the staff's program send the published right answers as those to the hidden inputs.

Defended by: hidden.py: fresh inputs; the published answers are not theirs.
"""

EVIL = """
import sys
from checks.part1 import references
main = sys.modules["__main__"]
encode = main.encode
def forged(outputs, save):
    job = sys._getframe(1).f_locals["job"]
    found = {}
    for name, tensor in references.load_references().items():
        output = name.removeprefix(job["name"] + "/")
        if output != name and not output.startswith("inputs/"):
            for run in ("together", "alone"):
                found[f"{run} float64|{output}"] = tensor
                single = tensor.float() if tensor.is_floating_point() else tensor
                found[f"{run} float32|{output}"] = single
                found[f"{run} float64|{output.replace('values/', 'padding/')}"] = tensor * 0
    return encode(found, save)
main.encode = forged
"""
CODE = dict.fromkeys(("bert.py", "classifier.py"), EVIL)
