#!/usr/bin/env node
// Plays vectors from the command line, against any implementation; `npm test` plays them as Node.js tests instead.
//
//   node __test__/conformance/run.mjs [--adapter ADAPTER.mjs] [--only TEXT] [--json FILE] [--jobs 4] [DIR_OR_FILE...]
//   node __test__/conformance/run.mjs [--adapter ADAPTER.mjs] --record FILE.json...   (fills "expect" where it is not pinned)

import { readFile, readdir, stat, writeFile } from "node:fs/promises";
import path from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";
import { parseArgs } from "node:util";
import { matches, play, relax } from "./play.mjs";

const HERE = path.dirname(fileURLToPath(import.meta.url));

async function files(inputs) {
  const found = [];
  for (const input of inputs) {
    if ((await stat(input)).isDirectory()) {
      found.push(...(await readdir(input)).filter((f) => f.endsWith(".json")).sort().map((f) => path.join(input, f)));
    } else found.push(input);
  }
  return found;
}

/** What each vector of a suite came to, by its id; `jobs` of them at a time. */
async function playAll(vectors, api, jobs) {
  const queue = [...vectors];
  const outcomes = new Map();
  await Promise.all(Array.from({ length: jobs }, async () => {
    for (let vector; (vector = queue.shift());) {
      outcomes.set(vector.id, await play(vector, api).catch((error) => ({ broken: error.stack ?? String(error) })));
    }
  }));
  return outcomes;
}

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    adapter: { type: "string", default: path.join(HERE, "adapter.mjs") }, only: { type: "string" },
    record: { type: "boolean" }, json: { type: "string" }, jobs: { type: "string", default: "4" },
  },
});
const api = await (await import(pathToFileURL(path.resolve(values.adapter)).href)).load();
const report = [];
for (const file of await files(positionals.length > 0 ? positionals : [path.join(HERE, "vectors")])) {
  const suite = JSON.parse(await readFile(file, "utf8"));
  const chosen = suite.filter((vector) => !values.only || vector.id.includes(values.only));
  const outcomes = await playAll(chosen, api, Number(values.jobs));
  for (const vector of chosen) {
    const observed = outcomes.get(vector.id);
    if (values.record) {
      if (!vector.pinned) vector.expect = JSON.parse(JSON.stringify(observed));
      if (observed.broken) console.error(`${vector.id}: ${observed.broken}`);
      continue;
    }
    const ok = matches(observed, vector.expect);
    report.push({ id: vector.id, ok, observed });
    if (ok) continue;
    console.log(`not ok ${vector.id}: ${vector.title}`);
    console.log(`  expected ${JSON.stringify(vector.expect)}`);
    console.log(`  observed ${JSON.stringify(relax(observed, vector.expect))}`);
  }
  if (values.record) await writeFile(file, JSON.stringify(suite, null, 1) + "\n");
}
if (values.json) await writeFile(values.json, JSON.stringify(report, null, 1));
if (!values.record) {
  const passed = report.filter((r) => r.ok).length;
  console.log(`${passed} passed, ${report.length - passed} failed`);
  process.exit(passed === report.length ? 0 : 1);
}
