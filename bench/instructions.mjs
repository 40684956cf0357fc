#!/usr/bin/env node
// Owns the check that the core has not become more expensive: counts, under valgrind's callgrind, the instructions of
// each scenario of bench/core and compares them with instructions.json. Counts hardly differ from run to run or machine
// to machine (valgrind shows all the same processor), so unlike times they can be held to a number.
//
//   npm run bench:instructions [-- --update]

import { execFileSync, spawnSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { cleanEnvironment } from "../scripts/npm.mjs";

const HERE = path.dirname(fileURLToPath(import.meta.url));
const ROOT = path.dirname(HERE);
const COMMITTED = path.join(HERE, "instructions.json");
/** How much more is still no regression. */
const TOLERANCE = 0.1;
const TIMES = [2, 6];

/** The program that runs a scenario, built as the addon is. */
function program() {
  const args = ["build", "--release", "--locked", "--package", "createos-bench", "--bin", "instructions", "--message-format=json"];
  const printed = execFileSync("cargo", args, { cwd: ROOT, env: cleanEnvironment(), encoding: "utf8", stdio: ["ignore", "pipe", "inherit"], maxBuffer: 1 << 28 });
  const messages = printed.split("\n").filter(Boolean).map((line) => JSON.parse(line));
  return messages.find(({ reason, executable, target }) => reason === "compiler-artifact" && executable && target.name === "instructions").executable;
}

/** The instructions of one run of a program, everything included. @param {string[]} command */
function count(command) {
  const folder = mkdtempSync(path.join(tmpdir(), "createos-callgrind-"));
  try {
    const file = path.join(folder, "out");
    execFileSync("valgrind", ["--tool=callgrind", `--callgrind-out-file=${file}`, ...command], { stdio: "pipe" });
    return Number(/^(?:summary|totals): (\d+)/m.exec(readFileSync(file, "utf8"))?.[1]);
  } finally {
    rmSync(folder, { recursive: true });
  }
}

/** The instructions of a scenario: what it takes to run it more often. @param {string} executable @param {string} scenario */
function instructionsOf(executable, scenario) {
  const [few, many] = TIMES.map((times) => count([executable, scenario, String(times)]));
  return Math.round((many - few) / (TIMES[1] - TIMES[0]));
}

const { values } = parseArgs({ options: { update: { type: "boolean", default: false } } });
if (process.arch !== "x64" || process.platform !== "linux" || spawnSync("valgrind", ["--version"]).status !== 0) {
  console.log("Instructions were not counted: that takes valgrind on Linux on x86-64 (apt-get install valgrind).");
  process.exit();
}
const executable = program();
/** @type {{[scenario: string]: number}} */
const committed = JSON.parse(readFileSync(COMMITTED, "utf8"));
/** @type {{[scenario: string]: number}} */
const counted = {};
let regressed = 0;
const scenarios = execFileSync(executable, ["list"], { encoding: "utf8" }).trim().split("\n");
for (const scenario of scenarios) {
  counted[scenario] = instructionsOf(executable, scenario);
  const change = counted[scenario] / committed[scenario] - 1;
  // A scenario without a committed number has to get one.
  const ok = change <= TOLERANCE;
  if (!ok) regressed++;
  const compared = Number.isNaN(change) ? "no committed number" : `${change >= 0 ? "+" : "−"}${Math.abs(change * 100).toFixed(1)} %`;
  console.log(`${ok ? "ok    " : "FAILED"} ${scenario}: ${counted[scenario].toLocaleString("en")} instructions (${compared})`);
}
if (values.update) {
  writeFileSync(COMMITTED, `${JSON.stringify(counted, null, 2)}\n`);
  console.log("instructions.json was updated.");
} else {
  console.log(`${scenarios.length - regressed} passed, ${regressed} failed`);
  if (regressed > 0) {
    console.log("More than 10 % more instructions than in bench/instructions.json. If they are worth it, or a compiler made them,");
    console.log("write the new numbers with `npm run bench:instructions -- --update`, commit them, and say why.");
    process.exitCode = 1;
  }
}
