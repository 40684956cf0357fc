#!/usr/bin/env node
// Owns `npm test`: installs and builds what is missing, runs every step, and closes with what came of each and the total.
//
//   npm test                          everything but the plugin
//   npm test -- STEP... [-- ARG...]   these steps only: rust, types, docs, js, install, packages, plugin; ARGs go to the step's own
//                                     program
//   npm test -- NAME...               the JavaScript tests in whose file names one of these occurs
//   npm run test:node -- 24           the JavaScript tests on that Node.js: a major version, fetched from the registry
//                                     once, or a path. The addon is the one that is there: nothing is built for it.
//   npm run test:packages             what is published, installed from a registry on this machine, and the examples; with
//                                     CREATEOS_PACKAGES=FOLDER the tarballs that are there
//   npm run test:plugin               the packed package in plugin/, with the real SDK on the Node.js that it asks for, and
//                                     the emulator with public clients; fetches all of them, so `npm test` leaves it out
//   --prebuilt                        with any of these: the addon is the one that is there, and no compiler is needed

import { spawn } from "node:child_process";
import { existsSync, readdirSync } from "node:fs";
import os from "node:os";
import path from "node:path";
import { fileURLToPath } from "node:url";
import { parseArgs, stripVTControlCharacters } from "node:util";
import { BuildError, build } from "./build.mjs";
import { references } from "./docs.mjs";
import { cleanEnvironment, ensureDependencies, fetchNode } from "./npm.mjs";
import { withInstalledPlugin } from "./plugin.mjs";
import { PREBUILT, missingTool } from "./toolchain.mjs";

const ROOT = path.dirname(path.dirname(fileURLToPath(import.meta.url)));
const TESTS = path.join(ROOT, "__test__");
/** These run npm and cargo, for minutes: apart from the tests that measure time, and not once more for each Node.js. */
const INSTALL = "install.test.mjs";
const PACKAGES = "packages.test.mjs";
/** These hold the package to times, so nothing else is to take the processor from them: one after another. */
const ALONE = ["conformance", "ending", "hanging", "lease", "process", "rate-limit", "signals", "slow-javascript"].map((name) => `${name}.test.mjs`);
/** How many of the other files run side by side: for most of their time they wait. */
const JOBS = Math.min(os.availableParallelism(), 4);
/** The Node.js that Paperclip's SDK asks for. */
const PLUGIN_NODE = "24";

/**
 * @typedef {{passed: number, failed: number, skipped: number}} Count
 * @typedef {{name: string, ok: boolean, seconds: number, count: Count}} Outcome
 */

/** What no test may get to print: a panic of the addon's, and what the tests keep secret. */
const UNSPEAKABLE = /\bpanicked at\b|s3cr3t/;

/**
 * Runs a program, its output passing through, and gives its exit status, the lines of its stdout, and all that it printed.
 * @param {string} program
 * @param {string[]} args
 * @param {{env?: NodeJS.ProcessEnv, cwd?: string}} [where]
 * @returns {Promise<{status: number | null, lines: string[], printed: string}>}
 */
function run(program, args, { env = cleanEnvironment(), cwd = ROOT } = {}) {
  return new Promise((resolve, reject) => {
    const colour = process.stdout.isTTY && !process.env.NO_COLOR ? { FORCE_COLOR: "1", CARGO_TERM_COLOR: "always" } : {};
    const child = spawn(program, args, { cwd, env: { ...env, ...colour }, stdio: ["ignore", "pipe", "pipe"] });
    const text = { stdout: "", stderr: "" };
    for (const stream of /** @type {const} */ (["stdout", "stderr"])) {
      child[stream].setEncoding("utf8").on("data", (chunk) => {
        process[stream].write(chunk);
        text[stream] += chunk;
      });
    }
    child.on("error", reject);
    child.on("close", (status) => {
      resolve({ status, lines: stripVTControlCharacters(text.stdout).split("\n"), printed: text.stdout + text.stderr });
    });
  });
}

/** Each `test result:` line of cargo is one test program. @param {string[]} lines @returns {Count} */
function countCargo(lines) {
  const count = { passed: 0, failed: 0, skipped: 0 };
  for (const line of lines) {
    const found = /^test result: .* (\d+) passed; (\d+) failed; (\d+) ignored/.exec(line);
    if (!found) continue;
    count.passed += Number(found[1]);
    count.failed += Number(found[2]);
    count.skipped += Number(found[3]);
  }
  return count;
}

/** The closing lines of Node.js' test runner: `ℹ pass 12`. @param {string[]} lines @returns {Count} */
function countNode(lines) {
  const of = (/** @type {string} */ word) =>
    Number(lines.map((line) => new RegExp(`^ℹ ${word} (\\d+)$`).exec(line)).filter(Boolean).at(-1)?.[1] ?? 0);
  return { passed: of("pass"), failed: of("fail") + of("cancelled"), skipped: of("skipped") + of("todo") };
}

/** @param {string[]} extra */
async function rust(extra) {
  const { status, lines } = await run("cargo", ["test", "--locked", ...extra]);
  return { status, count: countCargo(lines) };
}

/** The package's own JavaScript by its JSDoc, then a strict consumer of its declarations. @param {string[]} extra */
async function types(extra) {
  const tsc = path.join(ROOT, "node_modules", "typescript", "bin", "tsc");
  const count = { passed: 0, failed: 0, skipped: 0 };
  for (const project of ["tsconfig.json", "__test__/consumer/tsconfig.json"]) {
    const { status } = await run(process.execPath, [tsc, "--project", project, "--pretty", "false", ...extra]);
    console.log(`tsc --project ${project}: ${status === 0 ? "ok" : "failed"}`);
    count[status === 0 ? "passed" : "failed"]++;
  }
  return { status: count.failed, count };
}

/** The references of the API and of the core, of which neither may have a warning. @param {string[]} extra */
async function docs(extra) {
  const count = { passed: 0, failed: 0, skipped: 0 };
  for (const { name, program, args, env } of references()) {
    const { status } = await run(program, [...args, ...extra], { env });
    console.log(`${name}: ${status === 0 ? "ok" : "failed"}`);
    count[status === 0 ? "passed" : "failed"]++;
  }
  return { status: count.failed, count };
}

/** The tests of a folder, by their file names. @param {string} folder */
const testsIn = (folder) => readdirSync(folder).filter((file) => /\.test\.m?js$/.test(file)).sort();

/**
 * @param {string} node
 * @param {string[]} files
 * @param {string[]} extra
 * @param {{folder?: string, jobs?: number}} [where]
 */
async function nodeTests(node, files, extra, { folder = TESTS, jobs = 1 } = {}) {
  const env = cleanEnvironment();
  env.PATH = `${path.dirname(node)}${path.delimiter}${env.PATH ?? ""}`;
  // A test that waits for what never comes must not hold everything up.
  const args = ["--test", "--test-reporter=spec", "--test-timeout=600000", `--test-concurrency=${jobs}`, ...extra, ...files.map((file) => path.join(folder, file))];
  const { status, lines, printed } = await run(node, args, { env, cwd: path.dirname(folder) });
  const count = countNode(lines);
  // What a test that failed compares may be secret; then it is that test's failure.
  const spoken = status === 0 ? UNSPEAKABLE.exec(printed) : null;
  if (spoken) console.log(`The tests passed, but something printed: ${spoken[0]}`);
  return { status: status === 0 && (spoken || count.passed + count.failed === 0) ? 1 : status, count };
}

/** The package's own JavaScript tests. @param {string} node @param {string[]} files @param {string[]} extra */
async function suiteTests(node, files, extra) {
  const alone = files.filter((file) => ALONE.includes(file));
  const together = files.filter((file) => !ALONE.includes(file));
  /** @type {Array<{status: number | null, count: Count}>} */
  const ran = [];
  if (together.length > 0) ran.push(await nodeTests(node, together, extra, { jobs: JOBS }));
  if (alone.length > 0) ran.push(await nodeTests(node, alone, extra));
  return all(ran);
}

/** @param {string[]} extra */
async function plugin(extra) {
  const node = fetchNode(ROOT, PLUGIN_NODE);
  return withInstalledPlugin(ROOT, node, async ({ plugin, clients }) => {
    console.log("tsc --strict: ok");
    /** @type {Array<{status: number | null, count: Count}>} */
    const ran = [{ status: 0, count: { passed: 1, failed: 0, skipped: 0 } }];
    for (const folder of [path.join(plugin, "test"), clients]) ran.push(await nodeTests(node, testsIn(folder), extra, { folder }));
    return all(ran);
  });
}

/** Several runs as one. @param {Array<{status: number | null, count: Count}>} ran */
function all(ran) {
  const failed = ran.find(({ status }) => status !== 0);
  return { status: failed ? failed.status : 0, count: sum(ran.map(({ count }) => count)) };
}

/**
 * @param {string} name
 * @param {() => Promise<{status: number | null, count: Count}>} step
 * @returns {Promise<Outcome>}
 */
async function timed(name, step) {
  console.log(`\n── ${name}`);
  const started = performance.now();
  const { status, count } = await step();
  // A program that fails without a failed test (a compile error, a crash) counts as one.
  if (status !== 0 && count.failed === 0) count.failed = 1;
  return { name, ok: status === 0, seconds: (performance.now() - started) / 1000, count };
}

/** @param {string} wanted a major version or a path */
function nodeFor(wanted) {
  if (/^\d+$/.test(wanted)) return fetchNode(ROOT, wanted);
  const executable = path.resolve(wanted);
  if (!existsSync(executable)) throw new BuildError(`There is no Node.js at ${wanted}: give a major version, such as 24, or a path.`);
  return executable;
}

async function main() {
  const separator = process.argv.indexOf("--", 2);
  const own = process.argv.slice(2, separator < 0 ? undefined : separator);
  const extra = separator < 0 ? [] : process.argv.slice(separator + 1);
  const { values, positionals } = parseArgs({ args: own, allowPositionals: true, options: { node: { type: "string" }, prebuilt: { type: "boolean" } } });

  // Also for what the tests start.
  if (values.prebuilt) process.env[PREBUILT] = "1";
  const missing = missingTool(ROOT);
  if (missing) throw new BuildError(missing);
  ensureDependencies(ROOT);
  if (build()) console.log("The addon was built.");

  const node = values.node === undefined ? process.execPath : nodeFor(values.node);
  const present = testsIn(TESTS);
  const suite = present.filter((file) => file !== INSTALL && file !== PACKAGES);
  const title = values.node === undefined ? "js" : `js on Node.js ${values.node}`;
  /** @type {Record<string, () => Promise<Outcome>>} */
  const steps = {
    rust: () => timed("rust", () => rust(extra)),
    types: () => timed("types", () => types(extra)),
    docs: () => timed("docs", () => docs(extra)),
    js: () => timed(title, () => suiteTests(node, suite, extra)),
    install: () => timed("install", () => nodeTests(node, [INSTALL], extra)),
    packages: () => timed("packages", () => nodeTests(node, [PACKAGES], extra)),
    plugin: () => timed("plugin", () => plugin(extra)),
  };
  const { plugin: _, ...usual } = steps;
  const chosen = positionals.filter((name) => name in steps);
  const filters = positionals.filter((name) => !(name in steps));
  const found = present.filter((file) => filters.some((filter) => file.includes(filter)));
  if (filters.length > 0 && found.length === 0) {
    throw new BuildError(`No step and no file of __test__ is called ${filters.join(" or ")}; steps: ${Object.keys(steps).join(", ")}.`);
  }
  const plan = chosen.map((name) => steps[name]);
  if (found.length > 0) plan.push(() => timed(title, () => suiteTests(node, found, extra)));
  if (plan.length === 0) plan.push(...(values.node === undefined ? Object.values(usual) : [steps.js]));

  /** @type {Outcome[]} */
  const outcomes = [];
  for (const step of plan) outcomes.push(await step());

  console.log("");
  for (const { name, ok, seconds, count } of outcomes) {
    console.log(`${ok ? "ok    " : "FAILED"} ${name}: ${describe(count)} (${seconds.toFixed(1)} s)`);
  }
  console.log(describe(sum(outcomes.map(({ count }) => count))));
  process.exitCode = outcomes.every(({ ok }) => ok) ? 0 : 1;
}

/** @param {Count[]} counts @returns {Count} */
function sum(counts) {
  const of = (/** @type {keyof Count} */ what) => counts.reduce((total, count) => total + count[what], 0);
  return { passed: of("passed"), failed: of("failed"), skipped: of("skipped") };
}

/** @param {Count} count */
function describe({ passed, failed, skipped }) {
  return `${passed} passed, ${failed} failed${skipped > 0 ? `, ${skipped} skipped` : ""}`;
}

try {
  await main();
} catch (error) {
  console.error(error instanceof BuildError ? error.message : error);
  process.exitCode = 1;
}
