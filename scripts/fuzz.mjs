#!/usr/bin/env node
// Owns `npm run fuzz`: builds the targets of fuzz/, with any compiler that builds the addon, and runs them.
// docs/fuzzing.md says what they prove.
//
//   npm run fuzz -- TARGET [SECONDS] [-- ARG...]    one target, or `all` one after the other; 60 s each. ARGs go to libFuzzer
//   npm run fuzz -- TARGET FILE                     an input that failed, once more
//   npm run fuzz -- TARGET minimise                 the committed corpus anew, from itself and what was found since

import { spawnSync } from "node:child_process";
import { existsSync, mkdirSync, mkdtempSync, readdirSync, renameSync, rmSync } from "node:fs";
import os from "node:os";
import path from "node:path";
import { fileURLToPath } from "node:url";
import { cleanEnvironment } from "./npm.mjs";
import { missingTool } from "./toolchain.mjs";

const ROOT = path.dirname(path.dirname(fileURLToPath(import.meta.url)));
const FUZZ = path.join(ROOT, "fuzz");
/** What is found: inputs that lead somewhere new, and those that fail. */
const FOUND = path.join(ROOT, "target", "fuzz");
const TARGETS = readdirSync(path.join(FUZZ, "fuzz_targets")).map((file) => path.parse(file).name).sort();

/** A failure that its message explains; shown without a stack. */
class Failed extends Error {}

/**
 * @param {string} program
 * @param {string[]} args
 * @param {NodeJS.ProcessEnv} [env]
 */
function run(program, args, env = {}) {
  const { status, signal, error } = spawnSync(program, args, { cwd: ROOT, env: { ...cleanEnvironment(), ...env }, stdio: ["ignore", "inherit", "inherit"] });
  if (status !== 0) throw new Failed(`${path.basename(program)} failed: ${error?.message ?? signal ?? `exit status ${status}`}.`);
}

/** Builds into the folder of `cargo test`, which has built nearly all of it. */
function build() {
  const missing = missingTool(ROOT);
  if (missing) throw new Failed(missing);
  const manifest = path.join(FUZZ, "Cargo.toml");
  run("cargo", ["build", "--locked", "--quiet", "--manifest-path", manifest, "--target-dir", path.join(ROOT, "target")], {
    RUSTC_WRAPPER: path.join(FUZZ, "coverage.sh"),
  });
}

/**
 * @param {string} program
 * @param {string[]} args
 */
function fuzz(program, args) {
  // In memory, if there is such a place: the archives' target writes thousands of files a second.
  const scratch = mkdtempSync(path.join(existsSync("/dev/shm") ? "/dev/shm" : os.tmpdir(), "createos-fuzz-"));
  try {
    run(program, args, { TMPDIR: scratch });
  } finally {
    rmSync(scratch, { recursive: true, force: true });
  }
}

/**
 * @param {string} program
 * @param {string} name
 * @param {string | undefined} what
 * @param {string[]} extra
 */
function runTarget(program, name, what = "60", extra) {
  const seeds = path.join(FUZZ, "corpus", name);
  const found = path.join(FOUND, "corpus", name);
  const failing = path.join(FOUND, "failing", name, path.sep);
  for (const folder of [found, failing]) mkdirSync(folder, { recursive: true });
  if (what === "minimise") {
    const next = `${seeds}.next`;
    rmSync(next, { recursive: true, force: true });
    mkdirSync(next);
    fuzz(program, ["-merge=1", ...extra, next, seeds, found]);
    rmSync(seeds, { recursive: true });
    renameSync(next, seeds);
  } else if (/^\d+$/.test(what)) {
    const limits = [`-max_total_time=${what}`, "-timeout=120", "-rss_limit_mb=2048"];
    fuzz(program, [...limits, "-verbosity=0", "-print_final_stats=1", `-artifact_prefix=${failing}`, ...extra, found, seeds]);
  } else {
    fuzz(program, [path.resolve(what), ...extra]);
  }
}

function main() {
  const separator = process.argv.indexOf("--", 2);
  const [name = "", what] = process.argv.slice(2, separator < 0 ? undefined : separator);
  const extra = separator < 0 ? [] : process.argv.slice(separator + 1);
  if (name !== "all" && !TARGETS.includes(name)) {
    throw new Failed(`npm run fuzz -- TARGET [SECONDS | FILE | minimise]; targets: ${TARGETS.join(", ")}, or all.`);
  }
  build();
  const names = name === "all" ? TARGETS : [name];
  for (const target of names) {
    console.log(`\n── fuzz ${target}`);
    runTarget(path.join(ROOT, "target", "debug", target), target, what, extra);
  }
  console.log(`\n${names.length} passed, 0 failed`);
}

try {
  main();
} catch (error) {
  console.error(error instanceof Failed ? error.message : error);
  process.exitCode = 1;
}
