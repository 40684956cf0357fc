// Measures one contestant at one workload, once, in a process of its own: run.mjs starts it with both as JSON and reads
// the JSON it prints. Owns how each kind of workload is run and what is read off the process meanwhile; knows no targets.

import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { monitorEventLoopDelay } from "node:perf_hooks";
import { setTimeout as sleep } from "node:timers/promises";
import { Baseline } from "./baseline.mjs";
import { sandboxOf } from "./bodies.mjs";
import { median } from "./statistics.mjs";

/**
 * @typedef {(sandbox: string, log?: (stream: string, text: string) => void, signal?: AbortSignal) => Promise<any>} Run
 * @typedef {{contestant: string, url: string, workload: import("./workloads.mjs").Workload}} Task
 */

const loadAddon = () => createRequire(import.meta.url)("../index.js");

/** @param {Task} task @returns {Run} */
function contender({ contestant, url: apiUrl, workload: { paced = false } }) {
  if (contestant !== "addon") {
    const baseline = new Baseline({ apiUrl, paced, trim: contestant === "baseline" ? "always" : "late" });
    return (sandbox, log = () => {}) => baseline.execute(sandbox, log);
  }
  const { CreateosClient, execute, parseConfig } = loadAddon();
  const config = parseConfig({ apiUrl, apiKey: "key", shape: "s-1vcpu-1gb" });
  const client = new CreateosClient(config, paced ? {} : { pacing: false });
  const scope = { driverKey: "createos", companyId: "c", environmentId: "e", config };
  return (sandbox, log, signal) => execute(client, { ...scope, lease: { providerLeaseId: sandbox }, command: "true" }, signal, log);
}

/** A line of one of this process's files in /proc. @param {string} file @param {string} name */
function procKiB(file, name) {
  return Number(new RegExp(`^${name}:\\s+(\\d+)`, "m").exec(readFileSync(`/proc/self/${file}`, "utf8"))?.[1] ?? NaN);
}

// Summed up over the mappings: the counter in `status` is behind by up to 64 pages a thread.
const residentKiB = () => procKiB("smaps_rollup", "Rss");
const peakKiB = () => procKiB("status", "VmHWM");

/** CPU time of this thread, and of all of them, in ms. */
function cpu() {
  const sum = (/** @type {NodeJS.CpuUsage} */ { user, system }) => (user + system) / 1000;
  // Node.js 23.9 and newer.
  const thread = /** @type {any} */ (process).threadCpuUsage;
  return { main: thread ? sum(thread.call(process)) : NaN, all: sum(process.cpuUsage()) };
}

/** @param {() => Promise<unknown>} action */
async function timed(action) {
  const started = performance.now();
  await action();
  return performance.now() - started;
}

/** Runs a command and says how much its live log was given. @param {Run} run @param {string} sandbox */
async function logged(run, sandbox) {
  let units = 0;
  const result = await run(sandbox, (_stream, text) => {
    units += text.length;
  });
  if (result.exitCode !== 0) throw new Error(`Exit code ${result.exitCode}`);
  return units;
}

/** One command with a lot of output. @param {Run} run @param {Task} task */
async function stream(run, { workload: { kind = "ascii", bytes = 0, frame = 0 } }) {
  // The code is compiled and the connections are made.
  await logged(run, sandboxOf(kind, Math.min(bytes, 1 << 20), frame));
  const delay = monitorEventLoopDelay({ resolution: 1 });
  const resident = residentKiB();
  const before = cpu();
  let units = 0;
  delay.enable();
  const ms = await timed(async () => {
    units = await logged(run, sandboxOf(kind, bytes, frame));
  });
  delay.disable();
  const after = cpu();
  return {
    ms, units, mainMs: after.main - before.main, cpuMs: after.all - before.all,
    delayP99: delay.percentile(99) / 1e6, delayMax: delay.max / 1e6, grownKiB: peakKiB() - resident,
  };
}

/** Many commands at once. @param {Run} run @param {Task} task */
async function together(run, { workload: { kind = "ascii", bytes = 0, frame = 0, count = 1 } }) {
  const sandbox = sandboxOf(kind, bytes, frame);
  await logged(run, sandbox);
  let units = 0;
  const ms = await timed(async () => {
    const all = await Promise.all(Array.from({ length: count }, () => logged(run, sandbox)));
    units = all.reduce((sum, one) => sum + one, 0);
  });
  return { ms, units };
}

/** Short commands one after the other; the time of one is the median. @param {Run} run @param {Task} task */
async function series(run, { workload: { kind = "ascii", bytes = 0, frame = 0, count = 1, warmUp = 0 } }) {
  const sandbox = sandboxOf(kind, bytes, frame);
  for (let i = 0; i < warmUp; i++) await logged(run, sandbox);
  const times = [];
  let units = 0;
  for (let i = 0; i < count; i++) {
    times.push(await timed(async () => {
      units += await logged(run, sandbox);
    }));
  }
  return { ms: median(times), units };
}

/** Streams that say nothing; without any, what the process costs all the same. @param {Run} run @param {Task} task */
async function quiet(run, { workload: { count = 0, seconds = 1 } }) {
  /** Until it has greeted. @param {AbortSignal} signal @returns {Promise<void>} */
  const open = (signal) => new Promise((resolve, reject) => {
    run("quiet", () => resolve(), signal).catch(reject);
  });
  // One has come and gone, so that what only the first one costs is not counted.
  const first = new AbortController();
  await open(first.signal);
  first.abort();
  await sleep(1000);
  const [ended, resident] = [new AbortController(), residentKiB()];
  await Promise.all(Array.from({ length: count }, () => open(ended.signal)));
  await sleep(1000);
  const before = cpu();
  await sleep(seconds * 1000);
  return { cpuMs: cpu().all - before.all, grownKiB: (residentKiB() - resident) / Math.max(count, 1) };
}

/** Loading the addon. */
async function load() {
  return { ms: await timed(async () => loadAddon()) };
}

const KINDS = { stream, together, series, quiet };
const task = /** @type {Task} */ (JSON.parse(process.argv[2]));
const { measure } = task.workload;
console.log(JSON.stringify(measure === "load" ? await load() : await KINDS[measure](contender(task), task)));
process.exit();
