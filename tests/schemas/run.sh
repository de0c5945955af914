#!/bin/bash
# SPDX-License-Identifier: MIT
# run.sh: what detect writes, of the golden scenarios and of the demo, is what deploy/schemas/ says (see drift.py).
set -euo pipefail
cd "$(dirname "$0")/../.."
demo=$(mktemp)
trap 'rm -f "$demo"' EXIT
"${SLOTSCOPE_BINARY:-build/slotscope}" detect --demo --json >"$demo" 2>/dev/null
# The demo shows one of each pattern, and so do the scenarios.
tests/schemas/drift.py deploy/schemas "$demo"
tests/schemas/drift.py deploy/schemas tests/golden/detect/*/verdicts.ndjson
