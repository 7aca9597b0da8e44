#!/usr/bin/env bash
# Runs once, when Gradescope builds the image: Python and the packages that the grader needs. The
# build fails here rather than every student's run later.
set -euo pipefail
source=${AUTOGRADER:-/autograder}/source
target=${GRADER_PYTHON:-/opt/grader}
export DEBIAN_FRONTEND=noninteractive

apt-get update

python=
for version in 3.11 3.12 3.13; do
    if "python$version" -c 'import venv, ensurepip' 2>/dev/null; then
        python=python$version
        break
    fi
done
if [ -z "$python" ]; then
    apt-get install -y --no-install-recommends python3.11 python3.11-venv
    python=python3.11
fi
"$python" -m venv "$target"
# The index of torch's builds without CUDA, which are a tenth of the size; "" for no such index
torch=${TORCH_INDEX-https://download.pytorch.org/whl/cpu}
"$target/bin/pip" install --no-cache-dir ${torch:+--extra-index-url "$torch"} \
    -r "$source/repo/requirements.txt"
"$target/bin/python" -c 'import torch; print("setup: torch", torch.__version__)'
chmod -R u=rwX,go= "$source" # labels, the solution and the secret are root's alone
