#!/usr/bin/env bash
# Make .venv from the pinned versions and install kgen in it, editable. PYTHON names the interpreter to use.
set -euo pipefail
cd "$(dirname "$0")/.."

fail() {
    echo "setup: $*" >&2
    exit 3
}

fits() {
    "$1" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null
}

python=""
for candidate in ${PYTHON:-python3 python3.14 python3.13 python3.12 python3.11}; do
    if fits "$candidate"; then
        python=$candidate
        break
    fi
done
[ -n "$python" ] || fail "Python 3.11 or newer is needed; install it, or name it with PYTHON=/path/to/python3"
"$python" -c 'import ensurepip, venv' 2>/dev/null ||
    fail "$python has no venv module; install it (Debian and Ubuntu: apt-get install python3-venv)"

cxx=""
for candidate in ${CXX:-c++ g++ clang++}; do
    if echo 'int main() { return 0; }' | "$candidate" -std=c++20 -x c++ -fsyntax-only - 2>/dev/null; then
        cxx=$candidate
        break
    fi
done
[ -n "$cxx" ] || fail "a C++20 compiler is needed; install one (Debian and Ubuntu: apt-get install g++), or set CXX"

export PIP_DISABLE_PIP_VERSION_CHECK=1
# An environment of another interpreter, or one that was cut short, is made anew.
if ! fits .venv/bin/python; then
    rm -rf .venv
    "$python" -m venv .venv || fail "$python -m venv .venv failed"
fi
.venv/bin/python -m pip install --quiet --requirement ci/requirements.txt
# hatchling is among the pinned packages, so building kgen itself fetches nothing.
.venv/bin/python -m pip install --quiet --no-deps --no-build-isolation --editable .
touch .venv/.installed
echo "setup: .venv is ready ($(.venv/bin/python --version), $cxx)" >&2
