#!/usr/bin/env node
// Owns building the addon: `npm run build`, and `prepare`, which npm runs when the package is installed from a folder or
// a git URL. Nothing is built when the last build's inputs and outputs are still what they were. Prints to stderr only.
//
//   node scripts/build.mjs [--debug] [--force]

import { spawnSync } from "node:child_process";
import { createHash } from "node:crypto";
import { copyFileSync, existsSync, mkdirSync, readFileSync, readdirSync, realpathSync, renameSync, rmSync, writeFileSync } from "node:fs";
import path from "node:path";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { cleanEnvironment, toolsFolder } from "./npm.mjs";
import { PREBUILT, missingTool, rustcVersion } from "./toolchain.mjs";

const ROOT = path.dirname(path.dirname(fileURLToPath(import.meta.url)));
const STAMP = path.join(ROOT, "target", "createos-native.json");
const INPUTS = ["Cargo.toml", "Cargo.lock", "build.rs", "package.json", "scripts/build.mjs", "src"];
/** Variables that change what cargo makes of the same sources. */
const SETTINGS = /^(RUSTFLAGS|CARGO_ENCODED_RUSTFLAGS|CARGO_BUILD_.*|CARGO_PROFILE_.*)$/;

/** A failure that its message explains; shown without a stack. */
export class BuildError extends Error {}

/**
 * The files of a folder, or the file itself, relative to the package, in a fixed order.
 * @param {string} name
 * @returns {string[]}
 */
function filesOf(name) {
  const entries = readdirSync(path.dirname(path.join(ROOT, name)), { withFileTypes: true });
  const entry = entries.find((found) => found.name === path.basename(name));
  if (!entry?.isDirectory()) return entry ? [name] : [];
  return readdirSync(path.join(ROOT, name)).sort().flatMap((child) => filesOf(`${name}/${child}`));
}

/** @param {string[]} files */
function digest(files) {
  const hash = createHash("sha256");
  for (const file of files) {
    const at = path.join(ROOT, file);
    hash.update(`${file}\0`).update(existsSync(at) ? createHash("sha256").update(readFileSync(at)).digest("hex") : "-");
  }
  return hash.digest("hex");
}

/** What a build of the present sources would be made from. @param {string} profile */
function describeInputs(profile) {
  return {
    profile,
    sources: digest(INPUTS.flatMap(filesOf)),
    settings: Object.entries(process.env).filter(([name]) => SETTINGS.test(name)).sort().map((pair) => pair.join("=")),
    platform: `${process.platform} ${process.arch}`,
    compiler: rustcVersion(),
  };
}

/** @param {ReturnType<typeof describeInputs>} inputs */
function isUpToDate(inputs) {
  if (!existsSync(STAMP)) return false;
  const { inputs: built, outputs, content } = JSON.parse(readFileSync(STAMP, "utf8"));
  // Where the compiler is gone, what it built is still good.
  const wanted = { ...inputs, compiler: inputs.compiler ?? built.compiler };
  return JSON.stringify(built) === JSON.stringify(wanted) && digest(outputs) === content;
}

/**
 * Builds the addon and its generated loader into the package's folder, unless they are up to date.
 * @param {{debug?: boolean, force?: boolean}} [options]
 * @returns {boolean} whether anything had to be built
 */
export function build({ debug = false, force = false } = {}) {
  if (process.env[PREBUILT]) return false;
  const inputs = describeInputs(debug ? "debug" : "release");
  if (!force && isUpToDate(inputs)) return false;

  const missing = missingTool(ROOT);
  if (missing) throw new BuildError(missing);
  const output = path.join(ROOT, "target", "addon");
  rmSync(output, { recursive: true, force: true });
  mkdirSync(output, { recursive: true });
  const cli = path.join(toolsFolder(ROOT), "node_modules", "@napi-rs", "cli", "dist", "cli.js");
  const { status } = spawnSync(process.execPath, [
    cli, "build", "--platform", ...(debug ? [] : ["--release"]), "--no-const-enum", "--js", "binding.js",
    "--dts", "binding.d.ts", "--output-dir", output, "--", "--locked",
  ], { cwd: ROOT, env: cleanEnvironment(), stdio: ["ignore", 2, 2] });
  if (status !== 0) throw new BuildError("createos-native could not be built; the compiler's messages are above.");

  const outputs = readdirSync(output).sort();
  for (const file of outputs) replace(path.join(output, file), path.join(ROOT, file));
  writeFileSync(STAMP, JSON.stringify({ inputs, outputs, content: digest(outputs) }, null, 2));
  return true;
}

/**
 * Puts a copy in place by a rename: a process that has the old addon loaded keeps it, unharmed.
 * @param {string} from
 * @param {string} to
 */
function replace(from, to) {
  const next = `${to}.next`;
  copyFileSync(from, next);
  renameSync(next, to);
}

if (process.argv[1] && realpathSync(process.argv[1]) === fileURLToPath(import.meta.url)) {
  try {
    build(parseArgs({ options: { debug: { type: "boolean" }, force: { type: "boolean" } } }).values);
  } catch (error) {
    console.error(error instanceof Error ? error.message : error);
    process.exitCode = 1;
  }
}
