#!/usr/bin/env node
// Owns THIRD-PARTY-LICENSES.md: the crates that are linked into the addon on any of its targets, and their licenses, as the
// crates themselves carry them. What only runs while it is compiled (build scripts, procedural macros) is not in the binary.
//
//   node scripts/licenses.mjs [--check]     writes the file; with --check fails if it is not what it should be

import { spawnSync } from "node:child_process";
import { readFileSync, readdirSync, realpathSync, writeFileSync } from "node:fs";
import path from "node:path";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { BuildError } from "./build.mjs";

const ROOT = path.dirname(path.dirname(fileURLToPath(import.meta.url)));
const FILE = path.join(ROOT, "THIRD-PARTY-LICENSES.md");

/**
 * @typedef {{id: string, name: string, version: string, license: string | null, authors: string[], repository: string | null, manifest_path: string,
 *   targets: Array<{kind: string[]}>}} Crate
 * @typedef {{id: string, deps: Array<{pkg: string, dep_kinds: Array<{kind: string | null}>}>}} Node
 */

/** @param {string} target @returns {{packages: Crate[], resolve: {root: string, nodes: Node[]}}} */
function metadata(target) {
  const args = ["metadata", "--format-version=1", "--locked", "--filter-platform", target];
  const { status, stdout } = spawnSync("cargo", args, { cwd: ROOT, encoding: "utf8", maxBuffer: 1 << 28, stdio: ["ignore", "pipe", "inherit"] });
  if (status !== 0) throw new BuildError("cargo metadata failed; its messages are above.");
  return JSON.parse(stdout);
}

/** What is linked into the addon for one target. @param {string} target @returns {Crate[]} */
function linked(target) {
  const { packages, resolve } = metadata(target);
  const crates = new Map(packages.map((crate) => [crate.id, crate]));
  const nodes = new Map(resolve.nodes.map((node) => [node.id, node]));
  const seen = new Set([resolve.root]);
  for (const id of seen) {
    for (const { pkg, dep_kinds } of nodes.get(id)?.deps ?? []) {
      const macro = crates.get(pkg)?.targets.some(({ kind }) => kind.includes("proc-macro"));
      if (!macro && dep_kinds.some(({ kind }) => kind === null)) seen.add(pkg);
    }
  }
  seen.delete(resolve.root);
  return [...seen].map((id) => /** @type {Crate} */ (crates.get(id)));
}

/** The license texts of a crate: only MIT's where it may be chosen and has a file of its own. @param {Crate} crate */
function textsOf(crate) {
  const folder = path.dirname(crate.manifest_path);
  const files = readdirSync(folder, { withFileTypes: true }).filter((entry) => entry.isFile()).map(({ name }) => name).sort();
  const licenses = files.filter((name) => /^(licen[cs]e|copying|notice|copyright|unlicense)/i.test(name));
  const choice = /\bMIT\b/.test(crate.license ?? "") && !/ AND /.test(crate.license ?? "");
  const chosen = choice ? licenses.filter((name) => /mit/i.test(name)) : [];
  return (chosen.length > 0 ? chosen : licenses)
    .map((name) => readFileSync(path.join(folder, name), "utf8").replaceAll("\r\n", "\n").trim());
}

function document() {
  const { napi } = JSON.parse(readFileSync(path.join(ROOT, "package.json"), "utf8"));
  const crates = new Map(napi.targets.flatMap(linked).map((/** @type {Crate} */ crate) => [`${crate.name} ${crate.version}`, crate]));
  /** @type {Map<string, string[]>} */
  const users = new Map();
  const rows = [];
  for (const [name, crate] of [...crates].sort(([a], [b]) => (a < b ? -1 : 1))) {
    if (!crate.license) throw new BuildError(`${name} does not say what its license is.`);
    rows.push(`| ${name} | ${crate.license} | ${crate.repository ?? ""} |`);
    const texts = textsOf(crate);
    if (texts.length === 0) texts.push(`${crate.license}\n\nThe crate carries no text of its own. Its authors: ${crate.authors.join(", ") || "see its repository"}.`);
    for (const text of texts) users.set(text, [...(users.get(text) ?? []), name]);
  }
  const texts = [...users].map(([text, names]) => `### ${names.join(", ")}\n\n${text.split("\n").map((line) => `    ${line}`.trimEnd()).join("\n")}\n`);
  return [
    "# Third-party licenses\n",
    "The binaries of createos-native contain the crates below, and the Rust standard library (MIT OR Apache-2.0,",
    "https://github.com/rust-lang/rust). Made by `npm run licenses` from what the crates themselves say.\n",
    "| crate | license | source |", "| --- | --- | --- |", ...rows, "", "## Texts\n", texts.join("\n"),
  ].join("\n");
}

if (process.argv[1] && realpathSync(process.argv[1]) === fileURLToPath(import.meta.url)) {
  try {
    const { check } = parseArgs({ options: { check: { type: "boolean" } } }).values;
    const wanted = document();
    if (!check) writeFileSync(FILE, wanted);
    else if (readFileSync(FILE, "utf8") !== wanted) throw new BuildError("THIRD-PARTY-LICENSES.md is not up to date: npm run licenses.");
  } catch (error) {
    console.error(error instanceof BuildError ? error.message : error);
    process.exitCode = 1;
  }
}
