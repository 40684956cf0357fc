#!/usr/bin/env node
// Owns the binaries that are released for Linux: built by zig, with glibc against its version 2.17, and checked to need no newer
// glibc and no newer Node-API than promised. `npm run build` makes one for this machine instead.
//
//   node scripts/floor.mjs OUT [TARGET]     puts the binary into OUT, for x86_64-unknown-linux-gnu or TARGET

import { spawnSync } from "node:child_process";
import { mkdirSync, readFileSync, realpathSync } from "node:fs";
import path from "node:path";
import { fileURLToPath } from "node:url";
import { BuildError } from "./build.mjs";
import { cleanEnvironment, toolsFolder } from "./npm.mjs";
import { pythonTools } from "./python.mjs";

const ROOT = path.dirname(path.dirname(fileURLToPath(import.meta.url)));
const GLIBC = "2.17";
const TOOLS = ["ziglang==0.15.1", "cargo-zigbuild==0.24.1"];

/** Looked for by the addon itself (src/binding/external.rs), which does without them. */
const OPTIONAL = new Set(["node_api_create_external_string_latin1", "node_api_create_external_string_utf16"]);

/** @param {string[]} args of readelf */
function readelf(...args) {
  const { status, stdout, error } = spawnSync("readelf", ["--wide", ...args], { encoding: "utf8", maxBuffer: 1 << 28 });
  if (status !== 0) throw new BuildError(`readelf failed: ${error?.message ?? `exit status ${status}`}.`);
  return stdout;
}

const byVersion = new Intl.Collator("en", { numeric: true });

/**
 * The newest glibc that a binary needs, and what else it needs of the system and of Node.js.
 * @param {string} binary
 */
export function needsOf(binary) {
  const versions = [...readelf("--version-info", binary).matchAll(/Name: GLIBC_([\d.]+)/g)].map(([, version]) => version);
  const libraries = [...readelf("--dynamic", binary).matchAll(/\(NEEDED\).*\[(.*)\]/g)].map(([, library]) => library);
  // They are looked up by name when the addon is loaded. All that came after version 8 begin like this.
  const newer = readFileSync(binary, "latin1").match(/\bnode_api_\w+/g) ?? [];
  return {
    glibc: versions.sort(byVersion.compare).at(-1) ?? null,
    libraries: libraries.sort(),
    newerThanNodeApi8: [...new Set(newer)].filter((name) => !OPTIONAL.has(name)).sort(),
  };
}

/** @param {string} binary */
export function checkFloor(binary) {
  const { glibc, libraries, newerThanNodeApi8 } = needsOf(binary);
  const [newer] = newerThanNodeApi8;
  if (newer) throw new BuildError(`${path.basename(binary)} calls ${newer}, which Node-API 8 does not have.`);
  const isGlibc = !binary.endsWith("-musl.node");
  if (isGlibc !== (glibc !== null)) throw new BuildError(`${path.basename(binary)} is for ${isGlibc ? "musl" : "glibc"}.`);
  if (glibc !== null && byVersion.compare(glibc, GLIBC) > 0) throw new BuildError(`${path.basename(binary)} needs glibc ${glibc}; it must run on ${GLIBC}.`);
  return { glibc, libraries };
}

/**
 * @param {string} out
 * @param {string} [target]
 */
export function buildFloor(out, target = "x86_64-unknown-linux-gnu") {
  mkdirSync(out, { recursive: true });
  const bin = pythonTools(ROOT, "zig", TOOLS);
  const env = { ...cleanEnvironment(), PATH: `${bin}${path.delimiter}${process.env.PATH}` };
  const cli = path.join(toolsFolder(ROOT), "node_modules", "@napi-rs", "cli", "dist", "cli.js");
  const { status } = spawnSync(process.execPath, [
    cli, "build", "--platform", "--release", "--no-const-enum", "--js", "binding.js", "--dts", "binding.d.ts",
    "--cross-compile", "--target", target.endsWith("-gnu") ? `${target}.${GLIBC}` : target, "--output-dir", path.resolve(out), "--", "--locked",
  ], { cwd: ROOT, env, stdio: ["ignore", 2, 2] });
  if (status !== 0) throw new BuildError("createos-native could not be built; the messages are above.");
  const [arch, , , libc] = target.split("-");
  return path.resolve(out, `createos-native.linux-${arch === "x86_64" ? "x64" : "arm64"}-${libc}.node`);
}

if (process.argv[1] && realpathSync(process.argv[1]) === fileURLToPath(import.meta.url)) {
  try {
    const [out, target] = process.argv.slice(2);
    if (!out) throw new BuildError("usage: node scripts/floor.mjs OUT [TARGET]");
    const binary = buildFloor(out, target);
    const { glibc, libraries } = checkFloor(binary);
    console.log(`${path.basename(binary)}: glibc ${glibc ?? "none"}, ${libraries.join(" ")}`);
  } catch (error) {
    console.error(error instanceof BuildError ? error.message : error);
    process.exitCode = 1;
  }
}
