// Owns the question whether this machine can build the addon, and the one sentence that says what it lacks. Runs on any
// Node.js that knows ES modules, so that a too old one gets the sentence and not a syntax error.

import { spawnSync } from "node:child_process";
import { readFileSync } from "node:fs";

/** The oldest Node.js that the napi CLI, and so a build from source, runs on. */
const NODE_FLOOR = "20.17";

/** A variable that says: the addon that is there is the one to be used, whatever the sources say. Nothing is built then. */
export const PREBUILT = "CREATEOS_PREBUILT";

/**
 * What a program prints of its version; null when it is missing or cannot even say that, as a rustup without a toolchain.
 * @param {string} program
 * @param {string} argument
 */
function versionOf(program, argument) {
  const { status, stdout } = spawnSync(program, [argument], { encoding: "utf8" });
  return status === 0 ? stdout.trim() : null;
}

/**
 * @param {string} found
 * @param {string} floor
 */
function isOlder(found, floor) {
  const [have, need] = [found, floor].map((version) => version.split(".").map(Number));
  for (let i = 0; i < need.length; i++) {
    if ((have[i] || 0) !== need[i]) return (have[i] || 0) < need[i];
  }
  return false;
}

/** Everything that decides what the compiler makes of the same sources; null where there is no compiler. */
export function rustcVersion() {
  return versionOf("rustc", "-vV");
}

/**
 * One sentence naming the first thing that a build from source lacks here, or null when nothing is missing.
 * @param {string} root the package's folder
 */
export function missingTool(root) {
  if (process.env[PREBUILT]) return null;
  const needs = (/** @type {string} */ what, /** @type {string} */ found, /** @type {string} */ remedy) =>
    `createos-native needs ${what} to be built from source, but ${found}; ${remedy}, then run this command again.`;

  if (isOlder(process.versions.node, NODE_FLOOR)) {
    return needs(`Node.js ${NODE_FLOOR} or newer`, `this is ${process.versions.node}`, "get it from https://nodejs.org");
  }
  const floor = /^rust-version = "(.+)"$/m.exec(readFileSync(`${root}/Cargo.toml`, "utf8"))?.[1] ?? "1";
  for (const program of ["rustc", "cargo"]) {
    const version = versionOf(program, "--version");
    const remedy = "install Rust from https://rustup.rs";
    if (version === null) return needs(`Rust ${floor} or newer`, `no working ${program} was found`, remedy);
    const number = /\d+(\.\d+)*/.exec(version)?.[0] ?? "0";
    if (isOlder(number, floor)) return needs(`Rust ${floor} or newer`, `${program} is ${number}`, "run `rustup update`");
  }
  const compiler = process.env.CC || "cc";
  if (process.platform !== "win32" && versionOf(compiler, "--version") === null) {
    const remedy = process.platform === "darwin"
      ? "run `xcode-select --install`"
      : "install your system's compiler package (build-essential, gcc or clang)";
    return needs("a C compiler", `no working ${compiler} was found`, remedy);
  }
  return null;
}
