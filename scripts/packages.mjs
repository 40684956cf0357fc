#!/usr/bin/env node
// Owns the packages as they are published: the main one and one for each target, made by the napi CLI of a build's binaries,
// and packed. Nothing is published here, and the work tree is left as it is.
//
//   node scripts/packages.mjs BINARIES OUT     BINARIES holds a .node file of each target, OUT gets the tarballs

import { spawnSync } from "node:child_process";
import { cpSync, existsSync, mkdirSync, mkdtempSync, readFileSync, readdirSync, realpathSync, rmSync, writeFileSync } from "node:fs";
import os from "node:os";
import path from "node:path";
import { fileURLToPath } from "node:url";
import { BuildError } from "./build.mjs";
import { cleanEnvironment, npm, toolsFolder } from "./npm.mjs";

const ROOT = path.dirname(path.dirname(fileURLToPath(import.meta.url)));
/** What goes into every package. */
const LICENSES = ["LICENSE", "THIRD-PARTY-LICENSES.md"];

const readJson = (/** @type {string} */ file) => JSON.parse(readFileSync(file, "utf8"));
const writeJson = (/** @type {string} */ file, /** @type {object} */ value) => writeFileSync(file, `${JSON.stringify(value, null, 2)}\n`);

/**
 * @param {string[]} args
 * @param {string} folder
 */
function napi(args, folder) {
  const cli = path.join(toolsFolder(ROOT), "node_modules", "@napi-rs", "cli", "dist", "cli.js");
  const { status } = spawnSync(process.execPath, [cli, ...args], { cwd: folder, env: cleanEnvironment(), stdio: ["ignore", 2, 2] });
  if (status !== 0) throw new BuildError(`napi ${args[0]} failed; its messages are above.`);
}

/** What users get of the main package, its manifest without what only its developers need. @param {string} stage */
function copyMain(stage) {
  const manifest = readJson(path.join(ROOT, "package.json"));
  const { scripts, devDependencies, ...published } = manifest;
  const files = published.files.filter((/** @type {string} */ name) => !name.includes("*"));
  for (const file of [...files, "LICENSE", "README.md"]) {
    if (!existsSync(path.join(ROOT, file))) throw new BuildError(`${file} is missing: build the addon first, by npm run build.`);
    cpSync(path.join(ROOT, file), path.join(stage, file), { recursive: true });
  }
  // A provenance statement has to name the repository that it was built in.
  const { GITHUB_SERVER_URL, GITHUB_REPOSITORY } = process.env;
  const repository = GITHUB_REPOSITORY && { type: "git", url: `git+${GITHUB_SERVER_URL}/${GITHUB_REPOSITORY}.git` };
  writeJson(path.join(stage, "package.json"), { ...published, files, ...(repository && { repository }) });
}

/**
 * Makes the tarballs of a release.
 * @param {string} binaries
 * @param {string} out
 */
export function makePackages(binaries, out) {
  const there = existsSync(binaries) ? readdirSync(binaries, { encoding: "utf8", recursive: true }).map((file) => path.basename(file)) : [];
  const needed = readdirSync(path.join(ROOT, "npm")).map((target) => `createos-native.${target}.node`);
  const missing = needed.filter((file) => !there.includes(file));
  if (missing.length > 0) {
    throw new BuildError(`A release takes the binaries of all targets, and ${binaries} lacks ${missing.join(", ")}; npm pack makes a package with only this system's.`);
  }
  const stage = mkdtempSync(path.join(realpathSync(os.tmpdir()), "createos-packages-"));
  try {
    copyMain(stage);
    napi(["create-npm-dirs"], stage);
    napi(["artifacts", "--output-dir", path.resolve(binaries)], stage);
    // It also puts them beside the main package's own files.
    for (const file of readdirSync(stage)) if (file.endsWith(".node")) rmSync(path.join(stage, file));
    const folders = readdirSync(path.join(stage, "npm")).map((name) => path.join(stage, "npm", name));
    for (const folder of folders) {
      for (const file of LICENSES) cpSync(path.join(ROOT, file), path.join(folder, file));
      const manifest = readJson(path.join(folder, "package.json"));
      writeJson(path.join(folder, "package.json"), { ...manifest, files: [...manifest.files, ...LICENSES] });
    }
    napi(["prepublish", "--dry-run", "--no-gh-release"], stage);
    napi(["prepublish", "--skip-optional-publish", "--no-gh-release"], stage);
    mkdirSync(out, { recursive: true });
    npm(["pack", "--ignore-scripts", "--pack-destination", path.resolve(out), stage, ...folders], stage);
  } finally {
    rmSync(stage, { recursive: true, force: true });
  }
}

if (process.argv[1] && realpathSync(process.argv[1]) === fileURLToPath(import.meta.url)) {
  try {
    const [binaries, out] = process.argv.slice(2);
    if (!binaries || !out) throw new BuildError("usage: node scripts/packages.mjs BINARIES OUT");
    makePackages(binaries, out);
  } catch (error) {
    console.error(error instanceof BuildError ? error.message : error);
    process.exitCode = 1;
  }
}
