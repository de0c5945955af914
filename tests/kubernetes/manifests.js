// SPDX-License-Identifier: MIT
// manifests.js MODULES FOLDER: the manifests are what Kubernetes' API and the Prometheus Operator's take, and name each other;
// and mutants of them are not.
const fs = require('fs');
const path = require('path');

const [modules, folder] = process.argv.slice(2);
const load = (name) => require(path.join(modules, name));
const yaml = load('js-yaml');
const failures = [];
const check = (holds, what) => {
  if (holds) return;
  failures.push(what);
  console.log(`FAILED: ${what}`);
};

const models = {
  'v1': 'kubernetes-models/v1',
  'apps/v1': 'kubernetes-models/apps/v1',
  'monitoring.coreos.com/v1': '@kubernetes-models/prometheus-operator/monitoring.coreos.com/v1',
};

// What fields an object may have, as the models know it when they are asked: they take any others as well.
const schemas = new Map();
const validate = require.resolve('@kubernetes-models/validate', { paths: [path.join(modules, 'kubernetes-models')] });
const real = require(validate);
require.cache[validate].exports = { ...real, register: (name, schema) => { schemas.set(name, schema); return real.register(name, schema); } };

function unknownFields(value, schema, at, found) {
  if (!schema || typeof value !== 'object' || value === null) return;
  if (schema.$ref) return unknownFields(value, schemas.get(schema.$ref.replace(/#$/, '')), at, found);
  for (const part of schema.allOf || schema.oneOf || schema.anyOf || []) unknownFields(value, part, at, found);
  if (Array.isArray(value)) return value.forEach((item, i) => unknownFields(item, schema.items, `${at}[${i}]`, found));
  if (!schema.properties) return;
  for (const [name, field] of Object.entries(value)) {
    if (!schema.properties[name]) found.push(`${at}.${name}`);
    else unknownFields(field, schema.properties[name], `${at}.${name}`, found);
  }
}

function faultOf(object) {
  const library = models[object.apiVersion];
  if (!library) return `nobody knows ${object.apiVersion}`;
  const model = load(library)[object.kind];
  if (!model) return `there is no ${object.kind}`;
  try {
    new model(object).validate();
  } catch (error) {
    return String(error.message || error);
  }
  const found = [];
  if (object.kind === 'DaemonSet') unknownFields(object.spec, schemas.get('io.k8s.api.apps.v1.DaemonSetSpec'), 'spec', found);
  return found.length ? `unknown fields: ${found}` : '';
}

const read = (name) => yaml.loadAll(fs.readFileSync(path.join(folder, name), 'utf8'));
const objects = [...read('slotscope.yaml'), ...read('podmonitor.yaml'), ...read('podmonitor-ship.yaml')];
for (const object of objects) check(faultOf(object) === '', `${object.kind} ${object.metadata.name}: ${faultOf(object)}`);

const one = (kind) => objects.find((object) => object.kind === kind);
const daemons = one('DaemonSet');
const copy = (object) => JSON.parse(JSON.stringify(object));
const mutants = {
  'a text for a truth': (object) => { object.spec.template.spec.hostPID = 'yes'; },
  'no selector': (object) => { delete object.spec.selector; },
  'a misspelled field': (object) => { object.spec.template.spec.containers[0].imag = 'x'; },
  'a right that is no list': (object) => { object.spec.template.spec.containers[0].securityContext.capabilities.add = 'BPF'; },
  'a volume of no kind that there is': (object) => { object.spec.template.spec.volumes[0].hostpath = {}; },
};
for (const [what, change] of Object.entries(mutants)) {
  const mutant = copy(daemons);
  change(mutant);
  check(faultOf(mutant) !== '', `${what} would be noticed`);
}

// They belong together.
const pod = daemons.spec.template;
const labels = pod.metadata.labels;
check(Object.entries(daemons.spec.selector.matchLabels).every(([k, v]) => labels[k] === v), 'the DaemonSet selects its pods');
const monitors = objects.filter((object) => object.kind === 'PodMonitor');
check(monitors.every((monitor) => Object.entries(monitor.spec.selector.matchLabels).every(([k, v]) => labels[k] === v)), 'the PodMonitors select them');
const ports = pod.spec.containers.flatMap((container) => (container.ports || []).map((port) => port.name));
const scraped = monitors.flatMap((monitor) => monitor.spec.podMetricsEndpoints.map((endpoint) => endpoint.port));
check(JSON.stringify(scraped.sort()) === JSON.stringify(ports.sort()) && ports.length === 2, `and their ports: ${scraped}`);
for (const container of pod.spec.containers) {
  check((container.ports || []).every((port) => container.args.join(' ').includes(`--metrics=0.0.0.0:${port.containerPort} `)), `${container.name}: it serves metrics there`);
}
const volumes = pod.spec.volumes.map((volume) => volume.name);
for (const container of pod.spec.containers) {
  check(container.volumeMounts.every((mount) => volumes.includes(mount.name)), `${container.name}: its volumes are there`);
  check((container.envFrom || []).every((from) => one('ConfigMap').metadata.name === from.configMapRef.name), `${container.name}: its ConfigMap is there`);
  const used = [...container.args.join(' ').matchAll(/\$(SLOTSCOPE_\w+)/g)].map((match) => match[1]);
  check(used.length > 0 && used.every((name) => name in one('ConfigMap').data), `${container.name}: the ConfigMap has ${used}`);
  check(container.securityContext.capabilities.drop[0] === 'ALL' && container.securityContext.readOnlyRootFilesystem, `${container.name}: it has no right that it does not name`);
}
check(pod.spec.serviceAccountName === one('ServiceAccount').metadata.name, 'its account is there');
check(objects.every((object) => object.kind === 'Namespace' || object.metadata.namespace === one('Namespace').metadata.name), 'all of it is in its namespace');
const kustomization = read('kustomization.yaml')[0];
check(kustomization.resources.every((name) => fs.existsSync(path.join(folder, name))), "kustomization's files are there");
check(pod.spec.containers.every((container) => kustomization.images.some((image) => container.image.startsWith(image.name + ':'))), 'and it names the image');

console.log(`${objects.length} objects, ${failures.length} failures`);
process.exit(failures.length ? 1 : 0);
