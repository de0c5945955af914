#!/bin/bash
# SPDX-License-Identifier: MIT
# rules.sh PROMTOOL: the rules that we ship are understood, and say of known numbers what they should.
set -euo pipefail
cd "$(dirname "$0")/../../deploy/prometheus"
"$1" check config prometheus.yml
"$1" test rules slotscope.rules.test.yml
