#!/bin/bash
# SPDX-License-Identifier: MIT
# kubernetes_models.sh: prints a folder of node modules that know the schemas of Kubernetes' API and of the Prometheus Operator's, for tests:
# fixed versions, by npm.
# shellcheck source=scripts/cache.sh
. "$(dirname "$0")/cache.sh"

packages=(kubernetes-models@3.1.0 @kubernetes-models/prometheus-operator@4.4.4 js-yaml@4.1.0)

install_modules() {
	command -v npm >/dev/null || die "npm is not installed"
	npm install --silent --no-audit --no-fund --ignore-scripts --prefix made "${packages[@]}" >/dev/null || die "npm could not fetch ${packages[*]}"
}

cached kubernetes-models-3.1.0 install_modules
echo "$cache/kubernetes-models-3.1.0/node_modules"
