#!/usr/bin/env node
// Owns publishing the tarballs of a release: the platforms' packages first, so that nobody can install the main one without a
// binary. What the registry has already is left out: a release that was interrupted goes on where it stopped.
//
//   node scripts/publish.mjs TARBALLS [--dry-run] [--tag v1.2.3]     --tag refuses tarballs of another version
//   Everything after -- is handed on to npm publish.

import { spawnSync } from "node:child_process";
import { readdirSync, realpathSync } from "node:fs";
import path from "node:path";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { BuildError } from "./build.mjs";
import { npmCommand } from "./npm.mjs";

const MAIN = "createos-native";

/** @param {string[]} args @param {import("node:child_process").StdioOptions} stdio */
function npm(args, stdio) {
  const [program, ...first] = npmCommand();
  return spawnSync(program, [...first, ...args], { stdio, encoding: "utf8" });
}

/** @param {string} tarball @returns {{file: string, name: string, version: string}} */
function read(tarball) {
  const { status, stdout } = spawnSync("tar", ["-xzOf", tarball, "package/package.json"], { encoding: "utf8" });
  if (status !== 0) throw new BuildError(`${path.basename(tarball)} is no package.`);
  const { name, version } = JSON.parse(stdout);
  return { file: tarball, name, version };
}

/** Whether the registry has that version; a registry that does not answer is no "no". @param {string} what */
function isPublished(what) {
  const { status, stdout } = npm(["view", what, "version", "--json"], ["ignore", "pipe", "ignore"]);
  const answer = stdout.trim() === "" ? undefined : JSON.parse(stdout);
  if (status === 0) return answer !== undefined;
  if (answer?.error?.code === "E404") return false;
  throw new BuildError(`The registry does not say whether it has ${what}.`);
}

function main() {
  const { values, positionals } = parseArgs({ allowPositionals: true, options: { "dry-run": { type: "boolean" }, tag: { type: "string" } } });
  const [folder, ...more] = positionals;
  if (!folder) throw new BuildError("usage: node scripts/publish.mjs TARBALLS [--dry-run] [--tag TAG] [-- ARG...]");
  const packages = readdirSync(folder).filter((file) => file.endsWith(".tgz")).sort().map((file) => read(path.resolve(folder, file)));
  const main = packages.filter(({ name }) => name === MAIN);
  if (main.length !== 1) throw new BuildError(`There must be one ${MAIN} among the tarballs.`);
  for (const { name, version } of packages) {
    if (version !== main[0].version) throw new BuildError(`${name} is of another version, ${version}.`);
    if (values.tag !== undefined && values.tag !== `v${version}`) throw new BuildError(`The tag is ${values.tag}, and ${name} is ${version}.`);
  }
  for (const { file, name, version } of [...packages.filter((found) => found !== main[0]), ...main]) {
    if (isPublished(`${name}@${version}`)) {
      console.log(`${name}@${version}: published already`);
      continue;
    }
    const { status } = npm(["publish", file, "--access=public", ...(values["dry-run"] ? ["--dry-run"] : []), ...more], ["ignore", "ignore", "inherit"]);
    if (status !== 0) throw new BuildError(`${name}@${version} was not published; the messages are above.`);
    console.log(`${name}@${version}: ${values["dry-run"] ? "would be published" : "published"}`);
  }
}

if (process.argv[1] && realpathSync(process.argv[1]) === fileURLToPath(import.meta.url)) {
  try {
    main();
  } catch (error) {
    console.error(error instanceof BuildError ? error.message : error);
    process.exitCode = 1;
  }
}
