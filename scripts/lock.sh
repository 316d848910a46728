#!/usr/bin/env bash
# Pin every dependency with hashes and without index addresses.
set -euo pipefail
cd "$(dirname "$0")/.."
tool=$(mktemp -d)
trap 'rm -rf "$tool"' EXIT
python3 -m venv "$tool/venv"
"$tool/venv/bin/pip" install --quiet uv
compile=("$tool/venv/bin/uv" pip compile --quiet --universal --generate-hashes --python-version 3.11 --no-emit-index-url --custom-compile-command "make lock")
"${compile[@]}" pyproject.toml --extra embedded --extra fast -o requirements.lock
"${compile[@]}" --group dev -c requirements.lock -o requirements-dev.lock
