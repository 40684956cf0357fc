// Owns how the scripts call npm: the same npm that started them, without that run's own flags, and only when something
// is missing.

import { spawnSync } from "node:child_process";
import { copyFileSync, existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import path from "node:path";

// npm hands its flags down to scripts as variables. Those that say where registries are must reach an npm below it; those
// that say what this one installs, and where, must not.
const INHERITED =
  /^npm_(package_|lifecycle_|command$|config_(global|location|.*prefix|omit|include|production|only|optional|dev|dry_run|ignore_scripts|save.*|workspace.*|package_lock.*|install_.*|force|json|silent|loglevel|pack_destination|foreground_scripts)$)/i;

/** This process's environment without what an npm around it, or a test runner, meant for it alone. */
export function cleanEnvironment() {
  return Object.fromEntries(Object.entries(process.env).filter(([name]) =>
    !INHERITED.test(name) && name !== "INIT_CWD" && name !== "NODE_TEST_CONTEXT"));
}

/** The npm that started this process, else the one on the path: a program and its first arguments. @returns {string[]} */
export function npmCommand() {
  const cli = process.env.npm_execpath;
  return cli && /npm-cli\.[cm]?js$/.test(cli) ? [process.execPath, cli] : ["npm"];
}

/**
 * Runs npm in `cwd`; what it prints goes to stderr, since a caller's stdout may be read by a program (`npm pack --json`).
 * @param {string[]} args
 * @param {string} cwd
 */
export function npm(args, cwd) {
  const [program, ...first] = npmCommand();
  const quiet = ["--no-audit", "--no-fund", "--no-update-notifier", "--loglevel=error"];
  const { status, error } = spawnSync(program, [...first, ...args, ...quiet], {
    cwd, env: cleanEnvironment(), stdio: ["ignore", 2, 2], shell: program === "npm" && process.platform === "win32",
  });
  if (status !== 0) throw new Error(`npm ${args[0]} failed: ${error ? error.message : `exit status ${status}`}.`);
}

/**
 * Whether `root`/node_modules holds exactly what the lock file asks for. Optional packages are other platforms'.
 * @param {string} root
 */
export function isInstalled(root) {
  const installed = path.join(root, "node_modules", ".package-lock.json");
  if (!existsSync(installed)) return false;
  const read = (/** @type {string} */ file) => JSON.parse(readFileSync(file, "utf8")).packages;
  const have = read(installed);
  return Object.entries(read(path.join(root, "package-lock.json"))).every(([where, { version, optional }]) =>
    where === "" || optional || (have[where]?.version === version && existsSync(path.join(root, where))));
}

/**
 * Installs the development dependencies, as locked, unless they are there.
 * @param {string} root
 */
export function ensureDependencies(root) {
  if (!isInstalled(root)) npm(["ci", "--ignore-scripts", "--include=dev"], root);
}

/**
 * A folder whose node_modules holds the build's own tools. That is `root`, unless it comes without development
 * dependencies (a linked folder, an install that omits them): its node_modules are the installing npm's then, so the
 * tools go to a folder of their own below target/.
 * @param {string} root
 */
export function toolsFolder(root) {
  if (existsSync(path.join(root, "node_modules", "@napi-rs", "cli", "package.json"))) return root;
  const folder = path.join(root, "target", "build-tools");
  mkdirSync(folder, { recursive: true });
  for (const file of ["package.json", "package-lock.json"]) copyFileSync(path.join(root, file), path.join(folder, file));
  ensureDependencies(folder);
  return folder;
}

/**
 * The Node.js executable of that major version, from the registry; kept in node_modules/.cache.
 * @param {string} root
 * @param {string} major
 */
export function fetchNode(root, major) {
  const name = `node-${process.platform === "win32" ? "win" : process.platform}-${process.arch}`;
  const folder = path.join(root, "node_modules", ".cache", `node-${major}`);
  const home = path.join(folder, "node_modules", name);
  const executable = process.platform === "win32" ? path.join(home, "bin", "node.exe") : path.join(home, "bin", "node");
  if (!existsSync(executable)) {
    rmSync(folder, { recursive: true, force: true });
    mkdirSync(folder, { recursive: true });
    writeFileSync(path.join(folder, "package.json"), '{ "private": true }\n');
    npm(["install", "--ignore-scripts", "--no-package-lock", `${name}@${major}`], folder);
  }
  return executable;
}
