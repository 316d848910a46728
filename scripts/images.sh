#!/usr/bin/env bash
# Build both images for a release: bases pinned by digest, several platforms, an SBOM beside each.
#
#   PYTHON_IMAGE=python:3.13-slim@sha256:... INITC_IMAGE=python:3.13-alpine@sha256:... \
#     scripts/images.sh registry.example.com/grove [--push]
#
# A digest is one of the index for all platforms: `docker buildx imagetools inspect python:3.13-slim` shows it.
set -euo pipefail
cd "$(dirname "$0")/.."

prefix=${1:?usage: scripts/images.sh PREFIX [--push]}
push=${2:-}
platforms=${PLATFORMS:-linux/amd64,linux/arm64}
version=$(sed -n 's/^__version__.*= "\(.*\)"$/\1/p' src/grove/__init__.py)
out=${OUT:-dist}

for name in PYTHON_IMAGE INITC_IMAGE; do
  value=${!name:-}
  if [[ ! $value =~ @sha256:[0-9a-f]{64}$ ]]; then
    echo "images.sh: $name must name a base image with its digest (name:tag@sha256:...); got '${value}'" >&2
    exit 1
  fi
done

mkdir -p "$out"
for target in grove-operator grove-initc; do
  python3 scripts/sbom.py "$target" > "$out/$target-$version.cdx.json"
  docker buildx build -f deploy/Dockerfile --target "$target" --platform "$platforms" \
    --build-arg "PYTHON_IMAGE=$PYTHON_IMAGE" --build-arg "INITC_IMAGE=$INITC_IMAGE" \
    --sbom=true --provenance=mode=max ${push:+--push} -t "$prefix/$target:$version" .
done
