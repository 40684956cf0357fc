#!/usr/bin/env node
// Owns `npm run bench`: starts the endpoint, has each contestant measured in a process of its own, round by round and
// in turn, so that a busy moment of the machine hits all alike, and prints tables (Markdown) or writes them as JSON.
//
//   npm run bench                        everything, five rounds, on Node.js 24 (fetched from the registry once)
//   npm run bench -- [NAME...] [--rounds 5] [--node 24] [--json FILE] [--check]
//
// NAME chooses workloads by a part of their title. --node takes a major version or a path. --check exits with 1 when
// something falls short of what it must reach.

import { execFile, fork } from "node:child_process";
import { once } from "node:events";
import { existsSync, readdirSync, statSync, writeFileSync } from "node:fs";
import { cpus } from "node:os";
import path from "node:path";
import { fileURLToPath } from "node:url";
import { parseArgs, promisify } from "node:util";
import { build } from "../scripts/build.mjs";
import { ensureDependencies, fetchNode } from "../scripts/npm.mjs";
import { sandboxOf } from "./bodies.mjs";
import { judged, tables } from "./report.mjs";
import { WORKLOADS } from "./workloads.mjs";

const HERE = path.dirname(fileURLToPath(import.meta.url));
const ROOT = path.dirname(HERE);
const run = promisify(execFile);

/** Sends the endpoint a message and waits for its answer. @param {import("node:child_process").ChildProcess} server @param {unknown} [message] */
async function ask(server, message) {
  if (message !== undefined) server.send(/** @type {any} */ (message));
  const [answer] = await once(server, "message");
  return answer;
}

/** Reading the bytes to nowhere, without the start of the process. @param {string} url @param {string} sandbox */
async function curl(url, sandbox) {
  const address = `${url}/v1/sandboxes/${sandbox}/processes/p/connect?after=0`;
  const { stdout } = await run("curl", ["--silent", "--fail", "--output", "/dev/null", "--write-out", "%{time_total}", address]);
  return { ms: Number(stdout) * 1000 };
}

/**
 * @param {string} node
 * @param {string} url
 * @param {import("./workloads.mjs").Workload} workload
 * @param {import("./workloads.mjs").Contestant} contestant
 * @returns {Promise<import("./workloads.mjs").Figure>}
 */
async function measure(node, url, workload, contestant) {
  const { kind = "ascii", bytes = 0, frame = 0 } = workload;
  if (contestant === "curl") return curl(url, sandboxOf(kind, bytes, frame));
  if (contestant === "sixteenth") {
    const { units: _, ...figure } = await measure(node, url, { ...workload, bytes: bytes / 16 }, "addon");
    return figure;
  }
  const { stdout } = await run(node, [path.join(HERE, "subject.mjs"), JSON.stringify({ contestant, url, workload })]);
  return JSON.parse(stdout);
}

/**
 * Every round of a workload. Each round begins with another contestant.
 * @param {string} node
 * @param {string} url
 * @param {import("./workloads.mjs").Workload} workload
 * @param {number} rounds
 */
async function play(node, url, workload, rounds) {
  const { contestants } = workload;
  /** @type {import("./workloads.mjs").Figures[]} */
  const played = [];
  for (let round = 0; round < rounds; round++) {
    /** @type {import("./workloads.mjs").Figures} */
    const figures = {};
    for (let turn = 0; turn < contestants.length; turn++) {
      const contestant = contestants[(round + turn) % contestants.length];
      figures[contestant] = await measure(node, url, workload, contestant);
    }
    const units = new Set(Object.values(figures).flatMap((figure) => figure.units ?? []));
    if (units.size > 1) throw new Error(`${workload.title}: not all contestants saw the same output`);
    played.push(figures);
  }
  return played;
}

/** The size of the addon for this machine. */
function binaryMiB() {
  const name = readdirSync(ROOT).find((file) => file.endsWith(".node"));
  return name ? statSync(path.join(ROOT, name)).size / 1024 ** 2 : NaN;
}

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    rounds: { type: "string", default: "5" }, node: { type: "string", default: "24" },
    json: { type: "string" }, check: { type: "boolean", default: false },
  },
});
ensureDependencies(ROOT);
build();
const node = existsSync(values.node) ? path.resolve(values.node) : fetchNode(ROOT, values.node);
const chosen = WORKLOADS.filter(({ title }) => positionals.length === 0 || positionals.some((name) => title.includes(name)));

const server = fork(path.join(HERE, "server.mjs"), { execPath: node });
const { port } = await ask(server);
const results = [];
for (const workload of chosen) {
  const { title, kind, bytes, frame } = workload;
  if (process.stderr.isTTY) console.error(`… ${title}`);
  const sizes = bytes ? [bytes, Math.min(bytes, 1 << 20), ...(workload.contestants.includes("sixteenth") ? [bytes / 16] : [])] : [];
  const needed = kind && frame ? sizes.map((size) => sandboxOf(kind, size, frame)) : [];
  await ask(server, needed);
  const rounds = await play(node, `http://127.0.0.1:${port}`, workload, workload.rounds ?? Number(values.rounds));
  results.push({ workload, rounds });
}
server.disconnect();

const { stdout: version } = await run(node, ["--version"]);
const report = {
  date: new Date().toISOString(), node: version.trim(), machine: `${cpus().length} × ${cpus()[0].model}`, binaryMiB: binaryMiB(),
  workloads: results.map(({ workload, rounds }) => judged(workload, rounds)),
};
console.log(tables(report));
if (values.json) writeFileSync(values.json, `${JSON.stringify(report, null, 2)}\n`);
if (values.check && report.workloads.some(({ targets }) => targets.some(({ reached }) => !reached))) process.exitCode = 1;
